// The environment of the RL strategies: its masks keep the optimum, its runs and assignments are
// the same thing.
#include "search/rl/RunEnvironment.h"

#include "search/placement/Strategy.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
class EveryIterationModel : public testing::TestWithParam<IterationModel> {};

/// An optimal placement whose stages have one type each; none where there is no such.
std::optional<Placement> optimum(Evaluator &evaluator) {
  Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
  if (best.placement)
    for (const PlacedStage &stage : best.placement->stages)
      if (stage.group.counts.size() > 1)
        return std::nullopt;
  return best.placement;
}
} // namespace

TEST_P(EveryIterationModel, masksNeverRemoveTheOptimum) {
  int compared = 0;
  for (int seed = 0; seed < 200; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    std::optional<Placement> best = optimum(evaluator);
    if (!best)
      continue;
    AssignmentSpace assignments(evaluator);
    RunEnvironment environment(evaluator, assignments);
    TypeAssignment assignment = assignments.of(*best);
    Evaluation evaluation = *evaluator.evaluate(*best);
    double own = evaluation.iteration.value() / best->microBatches * (1 + 1e-9);
    double floor = problem.request.longestIteration().value() / best->microBatches;
    for (double limit : {own, floor}) {
      if (!std::isfinite(limit))
        continue;
      RunTable table(evaluator, assignments, {assignment.choice, limit});
      environment.begin(table, evaluation.objective * (1 + 1e-6));
      for (const heterplan::Run &run : environment.runsOf(assignment)) {
        ASSERT_TRUE(environment.isAllowed(run)) << "seed " << seed << ", block " << run.begin;
        Alternatives types = environment.typeAlternatives();
        ASSERT_TRUE(types.allowed[size_t(run.type)]) << "seed " << seed;
        ASSERT_TRUE(environment.endAlternatives(run.type).allowed[size_t(run.end - run.begin - 1)]);
        environment.place(run);
      }
      EXPECT_TRUE(environment.isDone());
    }
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST_P(EveryIterationModel, runsAndAssignmentsAreTheSameThing) {
  for (int seed = 0; seed < 50; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    AssignmentSpace assignments(evaluator);
    RunEnvironment environment(evaluator, assignments);
    std::mt19937_64 generator(seed);
    TypeAssignment drawn = assignments.random(generator);
    std::vector<heterplan::Run> runs = environment.runsOf(drawn);
    TypeAssignment back = environment.assignmentOf(runs, drawn.choice);
    EXPECT_EQ(environment.runsOf(back), runs);
    EXPECT_EQ(back.choice, drawn.choice);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryIterationModel,
                         testing::Values(IterationModel::Synchronous, IterationModel::SteadyState),
                         [](const auto &info) {
                           return info.param == IterationModel::Synchronous ? "synchronous"
                                                                            : "steady";
                         });
