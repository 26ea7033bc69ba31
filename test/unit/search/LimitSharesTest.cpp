#include "search/LimitShares.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
TEST(LimitShares, ReadingAndWritingTakeWhatTheyNeedWhileThatIsLittle) {
  EXPECT_DOUBLE_EQ(secondsBesideSearch(Seconds(10), Seconds(1), Seconds(0.5)).value(), 1.5);
}

TEST(LimitShares, AQuarterIsLeftToTheSearch) {
  EXPECT_DOUBLE_EQ(secondsBesideSearch(Seconds(8), Seconds(100), Seconds(100)).value(), 6);
  EXPECT_DOUBLE_EQ(secondsBesideSearch(Seconds(8), Seconds(0), Seconds(100)).value(), 4);
}

TEST(LimitShares, WritingGrowsWithDevices) {
  EXPECT_LT(secondsToWrite(8), Seconds(0.01));
  EXPECT_GT(secondsToWrite(10000), Seconds(1));
  EXPECT_LT(secondsToWrite(10000), Seconds(2));
}
} // namespace
