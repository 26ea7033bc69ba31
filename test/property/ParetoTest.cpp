// The Pareto front is what enumerating all placements gives at the floors that were swept.
#include "search/Pareto.h"
#include "support/RandomProblem.h"
#include "support/TestName.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
llvm::Expected<SearchOutcome> labelSetting(const Problem &problem, int) {
  return search(problem, "label-setting", {});
}

/// The least cost of a plan that reaches `floor`.
double cheapest(Problem problem, SamplesPerSecond floor) {
  problem.request.objective = Objective::Cost;
  problem.request.minThroughput = floor;
  SearchOutcome outcome = llvm::cantFail(search(problem, "exhaustive", {}));
  EXPECT_TRUE(outcome.plan);
  return outcome.plan ? outcome.plan->costPerMillionSamples.value() : 0;
}

class ParetoFrontOf : public testing::TestWithParam<IterationModel> {};

TEST_P(ParetoFrontOf, EqualsEnumerationAtItsFloors) {
  ParetoOptions options;
  options.points = 5;
  int paretoFronts = 0, points = 0;
  for (int seed = 0; seed < 150; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    ParetoFront front = llvm::cantFail(paretoFront(problem, labelSetting, options));
    SearchOutcome any = llvm::cantFail(search(problem, "exhaustive", {}));
    if (!any.plan) {
      ASSERT_TRUE(front.plans.empty()) << "seed " << seed;
      continue;
    }
    ASSERT_FALSE(front.plans.empty()) << "seed " << seed;
    ASSERT_LT(front.knee, front.plans.size());
    paretoFronts += front.plans.size() > 1;
    for (size_t i = 0; i < front.plans.size(); ++i, ++points) {
      const Plan &plan = front.plans[i];
      EXPECT_FALSE(bool(plan.verify()));
      if (i > 0) {
        EXPECT_GT(plan.throughput, front.plans[i - 1].throughput) << "seed " << seed;
        EXPECT_GT(plan.costPerMillionSamples, front.plans[i - 1].costPerMillionSamples);
      }
      if (plan.optimal && plan.objective == Objective::Cost) {
        EXPECT_NEAR(plan.costPerMillionSamples.value() / cheapest(problem, plan.minThroughput), 1,
                    1e-9)
            << "seed " << seed;
      }
    }
  }
  EXPECT_GT(paretoFronts, 20);
  EXPECT_GT(points, 150);
}

INSTANTIATE_TEST_SUITE_P(Pareto, ParetoFrontOf,
                         testing::Values(IterationModel::Synchronous, IterationModel::SteadyState),
                         [](const auto &info) { return test::testName(nameOf(info.param)); });

TEST(Pareto, AFloorThatIsReachedAlreadyIsNotSearched) {
  ParetoOptions options;
  options.points = 30;
  int searched = 0, reported = 0;
  options.progress = [&](int, int all) {
    EXPECT_EQ(all, 31);
    ++reported;
  };
  auto counting = [&](const Problem &problem, int left) {
    EXPECT_GE(left, 1);
    ++searched;
    return labelSetting(problem, left);
  };
  RandomProblem random(3);
  random.request = {};
  random.request.globalBatch = Samples(8);
  Problem problem = llvm::cantFail(random.problem());
  ParetoFront front = llvm::cantFail(paretoFront(problem, counting, options));
  EXPECT_EQ(searched, reported);
  EXPECT_LT(searched, 20); // there are few plans, so that most floors are reached by the one before
  EXPECT_GT(front.plans.size(), 1u);
}

TEST(Pareto, StoppedItKeepsWhatItHas) {
  ParetoOptions options;
  options.stop = [] { return true; };
  RandomProblem random(3);
  random.request = {};
  random.request.globalBatch = Samples(8);
  Problem problem = llvm::cantFail(random.problem());
  ParetoFront front = llvm::cantFail(paretoFront(problem, labelSetting, options));
  EXPECT_EQ(front.plans.size(), 2u); // the ends
  EXPECT_EQ(front.notReached, options.points - 1);
}
} // namespace
