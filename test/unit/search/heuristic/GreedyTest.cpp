// The first plan of a search.
#include "search/placement/Strategy.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

namespace {
/// The least objective of plans of one stage.
double bestOfOneStage(Evaluator &evaluator) {
  double best = std::numeric_limits<double>::infinity();
  for (int microBatches : evaluator.space.microBatches)
    for (const GroupOption &option : evaluator.space.options) {
      if (option.group.sharesNode())
        continue;
      const Placement whole{{{0, evaluator.problem.graph.size(), option.group}}, microBatches};
      if (std::optional<Evaluation> evaluation = evaluator.evaluate(whole))
        best = std::min(best, evaluation->objective);
    }
  return best;
}

/// The least objective of pipelines of two stages on equal groups of one type, with any cut: those
/// that a greedy search may look at, and others.
double bestOfTwoStages(Evaluator &evaluator, int microBatches) {
  double best = std::numeric_limits<double>::infinity();
  const int layers = evaluator.problem.graph.size();
  for (const GroupOption &option : evaluator.space.options)
    for (int cut : evaluator.space.positions) {
      if (option.group.counts.size() > 1 || cut == 0 || cut == layers)
        continue;
      const DeviceGroup group{option.group.counts};
      const Placement both{{{0, cut, group}, {cut, layers, group}}, microBatches};
      if (std::optional<Evaluation> evaluation = evaluator.evaluate(evaluator.shareNodes(both)))
        best = std::min(best, evaluation->objective);
    }
  return best;
}
} // namespace

// Plans that cannot be better than the best one are not evaluated: none that is better is among
// them.
TEST(Greedy, IsNoWorseThanEachPlanOfOneStage) {
  int found = 0, pipelines = 0;
  for (int seed = 0; seed < 300; ++seed) {
    test::RandomProblem random(seed);
    random.request.objective = seed % 2 ? Objective::Throughput : Objective::Cost;
    const Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem, everyCut(problem));
    const std::optional<Placement> placement = greedyPlacement(evaluator);
    const double best = bestOfOneStage(evaluator);
    const double objective = placement ? evaluator.evaluate(*placement)->objective
                                       : std::numeric_limits<double>::infinity();
    EXPECT_LE(objective, best) << "seed " << seed;
    found += std::isfinite(best);
    if (!placement || placement->stages.size() != 2)
      continue;
    EXPECT_GE(objective, bestOfTwoStages(evaluator, placement->microBatches) * (1 - 1e-9))
        << "seed " << seed;
    ++pipelines;
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(pipelines, 5);
}
