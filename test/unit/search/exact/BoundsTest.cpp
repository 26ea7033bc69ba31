// Bounds of what is not placed yet, against placements by hand and the optimum.
#include "search/exact/Bounds.h"
#include "search/exact/BlockBounds.h"
#include "search/exact/CountBounds.h"
#include "support/RandomProblem.h"

#include "search/network/StageArcs.h"
#include "search/placement/Strategy.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

TEST(Bounds, neverPassTheOptimum) {
  int compared = 0;
  for (int seed = 0; seed < 120; ++seed) {
    test::RandomProblem random(seed);
    if (seed % 3 == 2)
      random.request.iterationModel = IterationModel::SteadyState;
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
    if (!best.placement)
      continue;
    Evaluation evaluation = *evaluator.evaluate(*best.placement);
    StageTable table(evaluator, best.placement->microBatches);
    const SearchOptions options;
    Bounds bounds(evaluator, table, /*wholeModelGroups=*/true, options);
    EXPECT_LE(bounds.root(), evaluation.objective * (1 + 1e-9)) << "seed " << seed;
    bounds.tighten(evaluation.iteration.value() * 1.5, evaluation.objective * 1.5);
    EXPECT_LE(bounds.root(), evaluation.objective * (1 + 1e-9)) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST(BlockNetwork, stagesTakeAtLeastAsLongAsTheirBlocks) {
  int compared = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    test::RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    const NodePlaces places(evaluator.space);
    const std::vector<BlockLane> lanes = lanesOf(evaluator, places, /*wholeModelGroups=*/true);
    for (int m : evaluator.space.microBatches) {
      const BlockNetwork network(evaluator, places, lanes, m);
      const StageTable table(evaluator, m);
      for (const StageArc &arc : stageArcs(evaluator, table, /*wholeModelGroups=*/true))
        for (size_t lane = 0; lane < network.lanes.size(); ++lane) {
          if (network.lanes[lane]->option != arc.option)
            continue;
          const StageArc least = network.stage(arc.begin, arc.end, lane);
          constexpr double more = 1 - 1e-9;
          ASSERT_LE(least.time() * more, arc.time()) << "seed " << seed;
          ASSERT_LE(least.forwardTime() * more, arc.forwardTime()) << "seed " << seed;
          ASSERT_LE((least.time() + least.syncTime()) * more, arc.time() + arc.syncTime())
              << "seed " << seed;
          ++compared;
        }
    }
  }
  EXPECT_GT(compared, 1000);
}

/// Whether a bound leaves the stage in some option with its devices.
bool mayHave(const BlockBound &bound, const SearchSpace &space, const PlacedStage &stage) {
  auto indexOf = [&](int position) {
    return int(llvm::lower_bound(space.positions, position) - space.positions.begin());
  };
  for (int option = 0; option < int(space.options.size()); ++option)
    if (space.options[option].group.counts == stage.group.counts &&
        bound.mayHave(indexOf(stage.begin), indexOf(stage.end), space.options[option].plain))
      return true;
  return false;
}

/// Calls `visit` with each random problem that has a plan, solved by enumeration, and returns their
/// number. Every third one of the first 240 has a budget that the best plan keeps by little.
template <typename Visit> int eachSolved(int seeds, Visit visit) {
  int solved = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    test::RandomProblem random(seed);
    if (seed < 240 && seed % 3 == 0) {
      random.request.objective = Objective::Throughput;
      random.request.maxCostPerHour = DollarsPerHour(1 + seed % 7);
    }
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
    if (!best.placement)
      continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    visit(evaluator, *best.placement, evaluator.evaluate(*best.placement)->objective);
    ++solved;
  }
  return solved;
}

TEST(Bounds, ofEachNumberOfMicroBatchesNeverPassItsOptimum) {
  int solved = eachSolved(240, [](Evaluator &evaluator, const Placement &best, double objective) {
    CountBounds bounds(evaluator, /*wholeModelGroups=*/true);
    EXPECT_LE(bounds.objective(best.microBatches), objective * (1 + 1e-9));
  });
  EXPECT_GT(solved, 100);
}

TEST(Bounds, ofBlocksNeverPassTheOptimumNorRuleItsStagesOut) {
  const Tuning tuning;
  int close = 0;
  int solved = eachSolved(1000, [&](Evaluator &evaluator, const Placement &best, double objective) {
    const BlockBounds bounds(evaluator, tuning, /*wholeModelGroups=*/true);
    BlockStarts begin;
    for (double limit : {std::numeric_limits<double>::infinity(), objective * (1 + 1e-6)}) {
      const BlockBound bound = bounds.bound(evaluator, best.microBatches, limit,
                                            /*listsStages=*/true, begin);
      EXPECT_LE(bound.objective, objective * (1 + 1e-9));
      close += bound.objective > 0.5 * objective;
      for (const PlacedStage &stage : best.stages)
        EXPECT_TRUE(mayHave(bound, evaluator.space, stage));
    }
  });
  EXPECT_GT(solved, 100);
  EXPECT_GT(close, solved);
}

/// A floor of half the highest throughput makes iterations of several ranges possible.
TEST(Bounds, ofBlocksKnowThatMoneyIsPaidForWholeIterations) {
  const Tuning tuning;
  int solved = 0, close = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomProblem random(seed);
    random.request.objective = Objective::Throughput;
    Problem fast = llvm::cantFail(random.problem());
    Evaluator fastest(fast);
    const Solution best = llvm::cantFail(Exhaustive::run(fastest, {}));
    if (!best.placement)
      continue;
    const double iteration = fastest.evaluate(*best.placement)->iteration.value();
    const double batch = double(random.request.globalBatch.value());
    random.request.objective = Objective::Cost;
    random.request.minThroughput = SamplesPerSecond(batch / iteration / 2);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    const Solution cheapest = llvm::cantFail(Exhaustive::run(evaluator, {}));
    ASSERT_TRUE(cheapest.placement);
    const double objective = evaluator.evaluate(*cheapest.placement)->objective;
    const BlockBounds bounds(evaluator, tuning, /*wholeModelGroups=*/true);
    BlockStarts begin;
    for (double limit : {objective * (1 + 1e-6), objective * 1.2, objective * (1 + 1e-6)}) {
      const BlockBound bound = bounds.bound(evaluator, cheapest.placement->microBatches, limit,
                                            /*listsStages=*/true, begin);
      EXPECT_LE(bound.objective, objective * (1 + 1e-9));
      close += bound.objective > 0.9 * objective;
      for (const PlacedStage &stage : cheapest.placement->stages)
        EXPECT_TRUE(mayHave(bound, evaluator.space, stage));
    }
    ++solved;
  }
  EXPECT_GT(solved, 100);
  EXPECT_GT(close, 2 * solved);
}

/// The fastest stage bounds a problem without effective limits on devices.
TEST(Bounds, theOnlyPlacementIsItsOwnBound) {
  test::RandomProblem random(0);
  random.graph.layers.resize(1);
  random.graph.tensors.clear();
  random.cluster.types.resize(1);
  random.cluster.nodes.resize(1);
  random.cluster.nodes[0].count = 1;
  random.cluster.nodes[0].devices = {{random.cluster.types[0].name, 1}};
  random.cluster.types[0].memory = Bytes(1e9);
  random.request = {};
  random.request.globalBatch = Samples(2);
  random.request.microBatches = 1;
  Problem problem = llvm::cantFail(random.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 1);
  const SearchOptions options;
  Bounds bounds(evaluator, table, /*wholeModelGroups=*/true, options);
  auto only = evaluator.evaluate({{{0, 1, DeviceGroup{{{0, 1}}}}}, 1});
  ASSERT_TRUE(only);
  const double infinity = std::numeric_limits<double>::infinity();
  bounds.tighten(infinity, infinity);
  EXPECT_NEAR(bounds.root() / only->objective, 1, 1e-9);
}
