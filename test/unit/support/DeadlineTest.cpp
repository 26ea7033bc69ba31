#include "support/Deadline.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace heterplan;

TEST(Deadline, NeverPassesWithoutALimit) {
  Deadline deadline;
  EXPECT_FALSE(deadline.isLimited());
  EXPECT_FALSE(deadline.passed());
  EXPECT_TRUE(std::isinf(deadline.left().value()));
  EXPECT_FALSE(deadline.part(0.5).isLimited());
}

TEST(Deadline, IsAMomentThatItsCopiesShare) {
  double now = 100;
  Deadline deadline = Deadline::after(Seconds(10), [&] { return Seconds(now); });
  Deadline copy = deadline;
  now = 104;
  EXPECT_EQ(copy.left(), Seconds(6));
  EXPECT_EQ(copy.limit(), Seconds(10));
  Deadline half = copy.part(0.5);
  now = 107;
  EXPECT_TRUE(half.passed());
  EXPECT_FALSE(deadline.passed());
  now = 120;
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.left(), Seconds(0));
}
