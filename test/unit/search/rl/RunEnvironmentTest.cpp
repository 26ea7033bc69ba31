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

/// A mask that asks for a better plan than the optimum may leave nothing: it is not always true.
TEST_P(EveryIterationModel, MasksRemoveWhatPaysTooMuch) {
  int removed = 0, compared = 0;
  for (int seed = 0; seed < 200; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    random.request.objective = Objective::Cost;
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    std::optional<Placement> best = optimum(evaluator);
    if (!best)
      continue;
    AssignmentSpace assignments(evaluator);
    RunEnvironment environment(evaluator, assignments);
    TypeAssignment assignment = assignments.of(*best);
    Evaluation evaluation = *evaluator.evaluate(*best);
    RunTable table(
        evaluator, assignments,
        {assignment.choice, evaluation.iteration.value() / best->microBatches * (1 + 1e-9)});
    environment.begin(table, evaluation.objective * 1e-3);
    removed += !environment.typeAlternatives().any();
    ++compared;
  }
  EXPECT_GT(compared, 50);
  EXPECT_GT(removed, compared / 2);
}

/// Memory that one device has for a longer run is not looked at again; that may only weaken masks.
TEST_P(EveryIterationModel, TablesHaveTheCountOfEachRun) {
  int runs = 0, weaker = 0;
  for (int seed = 0; seed < 100; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    AssignmentSpace assignments(evaluator);
    const std::vector<int> &at = evaluator.space.positions;
    const int choice = seed % assignments.choices;
    const int microBatches = evaluator.space.microBatches[size_t(choice)];
    RunEnvironment environment(evaluator, assignments);
    double whole = 0;
    for (int block = 0; block < assignments.blocks; ++block)
      whole += environment.secondsOf(block, 0);
    RunTable table(evaluator, assignments, {choice, whole * double(1 + seed % 8)});
    for (int type = 0; type < assignments.types; ++type)
      for (int begin = 0; begin < assignments.blocks; ++begin) {
        bool isAllowed = evaluator.space.available[type] > 0;
        for (int end = begin + 1; end <= assignments.blocks; ++end) {
          isAllowed &= assignments.allowed(end - 1, type);
          bool isWhole = begin == 0 && end == assignments.blocks;
          bool isStage = isWhole ? evaluator.space.minStages < 2 : evaluator.space.maxStages > 1;
          int least = isAllowed && isStage
                          ? evaluator.stages.leastCount({at[begin], at[end]}, type,
                                                        table.start.limit, microBatches, 1)
                          : 0;
          int count = table.count(begin, end, type);
          ASSERT_TRUE(count == least || (count > 0 && (least == 0 || count < least)))
              << "seed " << seed << ", type " << type << ", blocks " << begin << " to " << end
              << ": " << count << ", not " << least;
          runs += least > 0;
          weaker += count != least;
        }
      }
  }
  EXPECT_GT(runs, 300);
  EXPECT_LE(weaker, runs / 20);
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
