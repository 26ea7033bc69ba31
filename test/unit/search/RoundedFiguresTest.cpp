// Figures in messages: rounded so that they can be typed back in.
#include "search/explain/FigureText.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace heterplan;

TEST(Rounding, ReadsBackOnTheRightSide) {
  EXPECT_EQ(roundedDown(1234.5678), "1234.56");
  EXPECT_EQ(roundedUp(1234.5612), "1234.57");
  EXPECT_EQ(roundedUp(7.364 * (1 + 1e-15)), "7.364"); // a sum of prices
  EXPECT_EQ(roundedDown(2), "2");
  EXPECT_EQ(roundedUp(2), "2");
  EXPECT_EQ(roundedDown(123456789.6), "123456789");
  EXPECT_EQ(roundedDown(0.000123456789), "0.000123456");
  EXPECT_EQ(roundedDown(0), "0");
  EXPECT_EQ(roundedUp(999999.5), "1000000");
  for (double value = 1e-7; value < 1e12; value *= 1.37) {
    EXPECT_LE(std::strtod(roundedDown(value).c_str(), nullptr), value * (1 + 1e-9));
    EXPECT_GE(std::strtod(roundedUp(value).c_str(), nullptr), value * (1 - 1e-9));
    EXPECT_NEAR(std::strtod(roundedDown(value).c_str(), nullptr), value, value * 1.1e-5);
  }
}
