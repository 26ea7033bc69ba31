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

TEST(LimitShares, WritingGrowsWithDevicesAndTheirGroups) {
  EXPECT_LT(secondsToWrite(8, Samples(256)), Seconds(0.01));
  EXPECT_GT(secondsToWrite(10000, Samples(256)), Seconds(0.3));
  EXPECT_GT(secondsToWrite(10000, Samples(10000)), 2 * secondsToWrite(10000, Samples(256)));
  EXPECT_EQ(secondsToWrite(100, Samples(1000)), secondsToWrite(100, Samples(100)));
}
} // namespace
