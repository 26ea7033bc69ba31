// The Pareto front of device-seconds against throughput, of burst plans, against all widths of
// small chains.
#include "Chain.h"

#include "search/Pareto.h"

#include <gtest/gtest.h>

using namespace heterplan;
using test::Chain;
using test::Least;

namespace {
/// Each plan has the least device-seconds at its floor on the throughput, and no other is as fast.
TEST(BurstTradeOffs, EqualBruteForceAtTheirFloors) {
  llvm::ExitOnError check;
  ParetoOptions options;
  options.points = 5;
  int tradeOffs = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Chain chain = test::randomChain(seed, 6, 4);
    Problem problem = chain.problem(Objective::DeviceSeconds);
    ParetoFront front = check(paretoFront(
        problem, [](const Problem &of, int) { return search(of, "auto", {}); }, options));
    ASSERT_FALSE(front.plans.empty()) << "seed " << seed;
    EXPECT_EQ(front.spent, Objective::DeviceSeconds);
    tradeOffs += front.plans.size() > 1;
    for (size_t i = 0; i < front.plans.size(); ++i) {
      const Plan &plan = front.plans[i];
      if (i > 0) {
        EXPECT_GT(plan.throughput, front.plans[i - 1].throughput);
        EXPECT_GT(plan.deviceTime, front.plans[i - 1].deviceTime);
      }
      chain.longest =
          plan.minThroughput.value() > 0 ? double(chain.batch) / plan.minThroughput.value() : 0;
      double best = chain.bruteForce(plan.objective == Objective::DeviceSeconds ? Least::DeviceTime
                                                                                : Least::Time);
      EXPECT_NEAR(plan.objective == Objective::DeviceSeconds ? plan.deviceTime.value()
                                                             : plan.iteration.value(),
                  best, 1e-9 * best)
          << "seed " << seed << ", point " << i;
    }
  }
  EXPECT_GT(tradeOffs, 10);
}
} // namespace
