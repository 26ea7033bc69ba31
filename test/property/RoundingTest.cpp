// Laws of continuous sizes and their roundings, on random small problems.
#include "search/provision/Rounding.h"
#include "search/provision/Provisioning.h"
#include "search/provision/TypeAssignment.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr RoundingMethod roundings[] = {RoundingMethod::Ceiling, RoundingMethod::FloorRepair,
                                        RoundingMethod::Randomised};

struct Tally {
  int sized = 0, rounded = 0, worse = 0;
};

/// Sizes one assignment exactly and by every rounding.
void compare(Evaluator &evaluator, const AssignmentSpace &assignments,
             const TypeAssignment &assignment, uint64_t seed, Tally &tally) {
  Provisioner provisioner(evaluator, assignments);
  auto exact = provisioner.size(assignment);
  if (!exact)
    return;
  ++tally.sized;
  auto sizes = ContinuousSizes::of(evaluator, exact->placement);
  ASSERT_TRUE(sizes);
  EXPECT_LE(sizes->objective(), exact->objective) << "better than the bound";
  for (RoundingMethod method : roundings) {
    std::optional<Placement> rounded = sizes->round(method, seed);
    ASSERT_TRUE(rounded) << nameOf(method);
    std::optional<Evaluation> evaluation = evaluator.evaluate(*rounded);
    ASSERT_TRUE(evaluation) << nameOf(method);
    EXPECT_GE(evaluation->objective, exact->objective * (1 - 1e-9)) << nameOf(method);
    ++tally.rounded;
    tally.worse += evaluation->objective > exact->objective * (1 + 1e-6);
  }
}
} // namespace

TEST(RoundingProperty, everyRoundingIsFeasibleWhereExactSizesAreAndNeverBetter) {
  Tally tally;
  for (int seed = 0; seed < 400; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = IterationModel::SteadyState;
    random.request.globalBatch = Samples(64);
    for (NodeGroup &group : random.cluster.nodes)
      group.count *= 5; // enough devices that sizes are not all 1
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    AssignmentSpace assignments(evaluator);
    std::mt19937_64 generator(seed);
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      compare(evaluator, assignments, assignments.random(generator), seed, tally);
    }
  }
  EXPECT_GT(tally.sized, 200);
  EXPECT_EQ(tally.rounded, 3 * tally.sized);
  EXPECT_GT(tally.worse, tally.rounded / 20); // else rounding would cost nothing here
}

TEST(RoundingProperty, plansSayWhatWholeNumbersCost) {
  for (int seed = 0; seed < 100; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = IterationModel::SteadyState;
    Problem problem = llvm::cantFail(random.problem());
    double exact = 0;
    for (RoundingMethod method : {RoundingMethod::Exact, RoundingMethod::Ceiling,
                                  RoundingMethod::FloorRepair, RoundingMethod::Randomised}) {
      SearchOptions options;
      options.rounding = method;
      SearchOutcome outcome = llvm::cantFail(search(problem, "parametric", options));
      if (!outcome.plan)
        break;
      ASSERT_TRUE(outcome.plan->rounding);
      EXPECT_EQ(outcome.plan->rounding->method, nameOf(method));
      double sign = problem.request.objective == Objective::Throughput ? -1 : 1;
      double value = sign * outcome.plan->objectiveValue;
      double continuous = sign * outcome.plan->rounding->continuous;
      EXPECT_LE(continuous, value + 1e-9 * std::abs(value)) << "seed " << seed;
      if (method == RoundingMethod::Exact)
        exact = value;
      EXPECT_GE(value, exact - 1e-9 * std::abs(exact)) << "seed " << seed;
    }
  }
}

TEST(RoundingProperty, noContinuousSizesWithoutSteadyState) {
  RandomProblem random(1);
  Problem problem = llvm::cantFail(random.problem());
  Evaluator evaluator(problem);
  EXPECT_FALSE(ContinuousSizes::of(evaluator, {{{0, problem.graph.size(), {{{0, 1}}}}}, 1}));
}
