// Laws of numbers of micro-batches: those that are searched hold the best one, and their quick
// bounds hold.
#include "search/Search.h"
#include "search/exact/CountBounds.h"
#include "search/verify/Checker.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr int problems = 60;

std::optional<Plan> best(const Problem &problem) {
  return llvm::cantFail(search(problem, "exhaustive", {})).plan;
}

Problem withMicroBatches(Problem problem, int microBatches) {
  problem.request.microBatches = microBatches;
  return problem;
}

/// In the units of Evaluation::objective.
double objectiveOf(const Plan &plan) {
  return plan.objective == Objective::Throughput ? plan.iteration.value() : plan.objectiveValue;
}
} // namespace

TEST(MicroBatchLaws, NoNumberIsBetterThanThoseThatAreSearched) {
  int uneven = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    std::optional<Plan> searched = best(problem);
    for (int m = 1; m <= problem.request.globalBatch.value(); ++m) {
      std::optional<Plan> asked = best(withMicroBatches(problem, m));
      if (!asked)
        continue;
      uneven += problem.request.globalBatch.value() % m != 0;
      ASSERT_TRUE(searched) << "seed " << seed << ", " << m;
      ASSERT_LE(objectiveOf(*searched), objectiveOf(*asked) * (1 + 1e-9)) << seed << ", " << m;
    }
  }
  EXPECT_GT(uneven, problems / 2);
}

TEST(MicroBatchLaws, PlansWithSmallerMicroBatchesAreAcceptedByTheChecker) {
  int checked = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    int64_t batch = problem.request.globalBatch.value();
    for (int m = 2; m < batch; ++m) {
      std::optional<Plan> plan = batch % m ? best(withMicroBatches(problem, m)) : std::nullopt;
      if (!plan)
        continue;
      auto findings = examinePlan(*plan, problem.graph, problem.cluster, *problem.costs);
      ASSERT_TRUE(bool(findings)) << toText(findings.takeError());
      for (const Finding &finding : *findings)
        ASSERT_TRUE(finding.check.holds) << seed << ": " << finding.because;
      ++checked;
    }
  }
  EXPECT_GT(checked, problems / 2);
}

class CountBoundLaws : public testing::TestWithParam<Objective> {};

TEST_P(CountBoundLaws, NoPlanIsBetter) {
  int positive = 0, close = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    random.request.objective = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    CountBounds bounds(evaluator, /*wholeModelGroups=*/true);
    for (int m : evaluator.space.microBatches) {
      double bound = bounds.objective(m);
      std::optional<Plan> plan = best(withMicroBatches(problem, m));
      if (!plan)
        continue;
      ASSERT_LE(bound, objectiveOf(*plan) * (1 + 1e-9)) << seed << ", " << m;
      positive += bound > 0;
      close += bound > 0.5 * objectiveOf(*plan);
    }
  }
  EXPECT_GT(positive, problems);
  EXPECT_GT(close, problems / 4);
}

INSTANTIATE_TEST_SUITE_P(Objectives, CountBoundLaws,
                         testing::Values(Objective::Throughput, Objective::Cost));
