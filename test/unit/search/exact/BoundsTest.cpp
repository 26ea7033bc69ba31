// Bounds of what is not placed yet, against placements by hand and the optimum.
#include "search/exact/Bounds.h"
#include "search/exact/CountBounds.h"
#include "support/RandomProblem.h"

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

/// Every third problem has a budget that the best plan keeps by little.
TEST(Bounds, ofEachNumberOfMicroBatchesNeverPassItsOptimum) {
  int compared = 0;
  for (int seed = 0; seed < 240; ++seed) {
    test::RandomProblem random(seed);
    if (seed % 3 == 0) {
      random.request.objective = Objective::Throughput;
      random.request.maxCostPerHour = DollarsPerHour(1 + seed % 7);
    }
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
    if (!best.placement)
      continue;
    const double objective = evaluator.evaluate(*best.placement)->objective;
    CountBounds bounds(evaluator, /*wholeModelGroups=*/true);
    EXPECT_LE(bounds.objective(best.placement->microBatches), objective * (1 + 1e-9))
        << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 100);
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
