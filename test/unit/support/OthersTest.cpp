#include "support/Others.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {

TEST(Others, CountTicksThatAProcessorWasNotIdle) {
  // user nice system idle iowait irq softirq steal guest
  EXPECT_EQ(busyTicks("cpu  1 20 300 9999 9999 4000 50000 600000 7\ncpu0 1 1"), 654321);
  EXPECT_EQ(busyTicks("cpu  1 20 x 9999 9999 4000 50000 600000 7\n"), 0);
  EXPECT_EQ(busyTicks("cpu 1 2 3\n"), 0);
  EXPECT_EQ(busyTicks(""), 0);
}

} // namespace
