#include "Fixture.h"

#include "search/jobs/policy/RoundedSpread.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// Eight nodes of a GPU each, whose GPUs cost 1 to 8.
struct Spread {
  Spread() {
    cluster.nodes[0].count = 8;
    problem = std::make_unique<jobs::Problem>(problemOf(cluster, {gpuJob("a")}, 5, Seconds(10)));
    cost.assign(problem->machines().capacity().size(), 0.01);
    for (int node = 0; node < 8; ++node)
      cost[problem->machines().sites()[node].resource[jobs::Gpu]] = node + 1;
  }

  std::optional<jobs::SlotPlan> round(double scale, uint64_t seed, jobs::RoundingCounts &counts) {
    return roundedSpread(*problem, 0, {problem->machines().capacity(), cost}, 42, 1e9,
                         {{scale, 50}, seed, 0}, counts);
  }

  Cluster cluster = twoGpuNodes();
  std::unique_ptr<jobs::Problem> problem;
  std::vector<double> cost;
};
} // namespace

TEST(JobsRounding, whatIsReturnedHolds) {
  Spread spread;
  for (double scale : {0.7, 1.0, 1.3})
    for (uint64_t seed = 0; seed < 50; ++seed) {
      jobs::RoundingCounts counts;
      auto plan = spread.round(scale, seed, counts);
      EXPECT_EQ(counts.tries, 50);
      EXPECT_EQ(counts.held + counts.packingFailed + counts.coveringFailed, 50);
      if (!plan)
        continue;
      EXPECT_GE(spread.problem->samplesOf(0, plan->rows), 42 * (1 - 1e-9));
      std::vector<double> free = spread.problem->machines().capacity();
      spread.problem->take(0, plan->rows, free);
      for (double left : free)
        EXPECT_GE(left, 0);
    }
}

TEST(JobsRounding, scalingDownFavoursPackingAndUpCovering) {
  Spread spread;
  jobs::RoundingCounts low, high;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    spread.round(0.7, seed, low);
    spread.round(1.3, seed, high);
  }
  EXPECT_LE(low.packingFailed, high.packingFailed);
  EXPECT_GT(low.coveringFailed, high.coveringFailed);
}

TEST(JobsRounding, nothingIsTriedWhereNoSpreadCanBeCheaper) {
  Spread spread;
  jobs::RoundingCounts counts;
  EXPECT_FALSE(roundedSpread(*spread.problem, 0,
                             {spread.problem->machines().capacity(), spread.cost}, 42, 0.5,
                             {{1, 50}, 0, 0}, counts));
  EXPECT_EQ(counts.tries, 0);
}
