#include "support/Statistics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace heterplan {

TEST(Statistics, TheMedianIsInTheMiddle) {
  EXPECT_EQ(median({4}), 4);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 2}), 3);
}

TEST(Statistics, ATrimmedMeanLeavesTheEndsOut) {
  EXPECT_EQ(trimmedMean({4}), 4);
  EXPECT_EQ(trimmedMean({9, 1}), 5);
  EXPECT_EQ(trimmedMean({9, 1, 4}), 4);
  EXPECT_EQ(trimmedMean({90, 1, 4, 5, 6}), 5);
  std::vector<double> eleven{100, 100}; // two of either end
  eleven.insert(eleven.end(), {1, 2, 3, 4, 5, 6, 7, 0, 0});
  EXPECT_EQ(trimmedMean(eleven), 4);
}

TEST(Statistics, TheSpreadIsThatOfTheMedian) {
  EXPECT_EQ(spreadOf({1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(spreadOf({3, 1, 2}), 0.5); // few: their whole range
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1);
  EXPECT_DOUBLE_EQ(spreadOf(hundred), 9.5 / 50.5);
}

} // namespace heterplan
