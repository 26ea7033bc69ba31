#include "search/exact/Lagrangian.h"
#include "support/RandomProblem.h"

#include "search/placement/Strategy.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <set>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Nothing is chosen yet.
PartialPlacement open(const Evaluator &evaluator) {
  static const std::vector<int> none(8, 0);
  PartialPlacement partial;
  partial.position = static_cast<int>(evaluator.space.positions.size()) - 1;
  partial.used = none;
  return partial;
}

double rootOf(Evaluator &evaluator, int microBatches, double target) {
  StageTable table(evaluator, microBatches);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  lagrangian.tighten(target, infinity);
  return lagrangian.time(open(evaluator));
}

/// Makes the bounds as sharp as they get; how often that took a step.
int sharpen(Lagrangian &lagrangian, double target) {
  int steps = 0;
  while (lagrangian.sharpen(target) > 0)
    ++steps;
  return steps;
}

/// `layers` layers of 0.5 s forward and 0.5 s backward per sample and nothing to move, on
/// `devices` devices of one type that cost $1/h each.
struct Chain : RandomProblem {
  Chain(int layers, int devices, int batch) : RandomProblem(0) {
    graph = {};
    cluster = {};
    costs = {};
    request = {};
    graph.model = "chain";
    for (int i = 0; i < layers; ++i) {
      Layer layer;
      layer.name = layer.signature = "layer" + std::to_string(i);
      graph.layers.push_back(layer);
      costs.layer(layer.name, {Seconds(0.5), Seconds(0.5), Seconds(0), Seconds(0)});
    }
    cluster.name = "pool";
    DeviceType type;
    type.name = "gpu";
    type.memory = Bytes(1e9);
    type.price = DollarsPerHour(1);
    cluster.types.push_back(type);
    costs.speed("gpu", 1);
    NodeGroup group;
    group.name = "node";
    group.count = devices;
    group.devices["gpu"] = 1;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
    cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
    request.globalBatch = Samples(batch);
  }
};
} // namespace

TEST(Lagrangian, devicesLimitWhatIsOpen) {
  // Four layers on two devices, two micro-batches of one sample: without the limit each layer has a
  // device (Σ τ = 4, max τ = 1: 5 s); two stages of two layers take 4 + 2. The relaxation may mix
  // paths.
  Chain chain(4, 2, 2);
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  double root = rootOf(evaluator, 2, infinity);
  EXPECT_LE(root, 6 + 1e-9);
  EXPECT_GT(root, 5.7);
}

namespace {
/// Two layers that no device holds together, one micro-batch of four samples, five devices: two and
/// two take 2 + 2 s. Four and four would take 1 + 1 s, and the limit lies between both.
struct ChainOfTwoStages : Chain {
  ChainOfTwoStages() : Chain(2, 5, 4) {
    for (Layer &layer : graph.layers)
      layer.parameterBytes = Bytes(300);
    cluster.types[0].memory = Bytes(1000);
    request.shardState = StateSharding::None;
  }
};
} // namespace

TEST(Lagrangian, aLimitThatIsKeptExactlyMixesNoPaths) {
  ChainOfTwoStages chain;
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 1);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  const double limit = 4.01;
  lagrangian.tighten(limit, infinity);
  EXPECT_LT(lagrangian.time(open(evaluator)), 3.6);
  EXPECT_GT(sharpen(lagrangian, limit), 0);
  EXPECT_LE(lagrangian.time(open(evaluator)), limit);
  EXPECT_GT(lagrangian.time(open(evaluator)), 3.99);
}

TEST(Lagrangian, NeighboursAreKeptBeforeLevelsAndLevelsWhereThereIsRoom) {
  // With room for one state at each junction no limit is kept.
  ChainOfTwoStages chain;
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 1);
  const double limit = 4.01;
  SearchOptions options;
  int steps = 0;
  for (options.tuning.mostPlaces = 0; steps == 0; ++options.tuning.mostPlaces) {
    ASSERT_LT(options.tuning.mostPlaces, 1000);
    Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
    lagrangian.tighten(limit, infinity);
    steps = sharpen(lagrangian, limit);
    EXPECT_LT(lagrangian.time(open(evaluator)), 3.6);
  }
  EXPECT_EQ(steps, 1);
  options.tuning.mostPlaces = 1000;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  lagrangian.tighten(limit, infinity);
  EXPECT_EQ(sharpen(lagrangian, limit), 2);
}

namespace {
/// Four layers on four devices, eight micro-batches of one sample. A layer keeps 100 bytes of a
/// micro-batch, and a stage as many micro-batches as stages are left: four stages of a layer take
/// 4 + 7·1 s, and the first one keeps 400 bytes.
struct ChainOfDepths : Chain {
  explicit ChainOfDepths(double memory) : Chain(4, 4, 8) {
    for (Layer &layer : graph.layers)
      layer.activationBytes = Bytes(100);
    cluster.types[0].memory = Bytes(memory);
    request.microBatches = 8;
    request.recompute = RecomputePolicy::Never;
    request.shardState = StateSharding::None;
  }
};
} // namespace

TEST(Lagrangian, memoryCountsTheStagesBehind) {
  for (auto [memory, best] : {std::pair(400.0, 11.0), std::pair(399.0, 18.0)}) {
    ChainOfDepths chain(memory);
    Problem problem = llvm::cantFail(chain.problem());
    Evaluator evaluator(problem);
    Solution exhaustive = llvm::cantFail(Exhaustive::run(evaluator, {}));
    ASSERT_TRUE(exhaustive.placement);
    EXPECT_NEAR(evaluator.evaluate(*exhaustive.placement)->iteration.value(), best, 1e-6);
    // One, one and two layers: two stages of two layers keep 400 bytes, too.
    const double root = rootOf(evaluator, 8, infinity);
    EXPECT_LE(root, best + 1e-9);
    EXPECT_GT(root, best - 0.1);
  }
}

TEST(Lagrangian, stagesThatDoNotFitAtTheirDepthAreNotListed) {
  ChainOfDepths chain(399);
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 8);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  lagrangian.tighten(40, infinity);
  PartialPlacement partial = open(evaluator);
  partial.position = 1;
  partial.option = 0;
  for (int depth = 1; depth <= 4; ++depth) { // the first layer, with so many stages behind it
    partial.depth = depth;
    llvm::SmallVector<StageSpan, 8> found;
    lagrangian.listExtensions(partial, 40, infinity, found);
    EXPECT_EQ(found.empty(), depth > 2) << depth;
    EXPECT_EQ(std::isinf(lagrangian.time(partial)), depth > 2) << depth;
  }
}

TEST(Lagrangian, theBudgetIsAResource) {
  Chain chain(4, 8, 2);
  chain.request.maxCostPerHour = DollarsPerHour(2);
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  double root = rootOf(evaluator, 2, infinity);
  EXPECT_LE(root, 6 + 1e-9);
  EXPECT_GT(root, 5.7);
}

TEST(Lagrangian, costCountsTheDevicesThatTheFloorTakes) {
  Chain chain(4, 8, 4);
  chain.request.objective = Objective::Cost;
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 4);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  // Four micro-batches of one sample. One device takes 16 s for 1 dollar/h; four take 4 + 3·1 s.
  lagrangian.tighten(7 * (1 + 1e-9), infinity);
  EXPECT_LE(lagrangian.cost(open(evaluator)), 4 * 7 * (1 + 1e-9));
  EXPECT_GT(lagrangian.cost(open(evaluator)), 4 * 6.9);
}

TEST(Lagrangian, aFloorLimitsWhatAllStagesTakeTogether) {
  Chain chain(8, 8, 1);
  chain.request.objective = Objective::Cost;
  DeviceType fast = chain.cluster.types.front();
  fast.name = "fast";
  fast.price = DollarsPerHour(8);
  chain.cluster.types.push_back(fast);
  chain.costs.speed("fast", 4);
  NodeGroup node = chain.cluster.nodes.front();
  node.name = "fast-node";
  node.count = 1;
  node.devices = {{"fast", 1}};
  chain.cluster.nodes.push_back(node);
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 1);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  // One micro-batch within 4 s. The slow devices alone take 8 s, in whatever stages: two of them
  // cost 1 dollar/h · 4 s each. The fast one takes 2 s.
  lagrangian.tighten(4 * (1 + 1e-9), infinity);
  EXPECT_LE(lagrangian.cost(open(evaluator)), 8 * 2 * (1 + 1e-9));
  EXPECT_GT(lagrangian.cost(open(evaluator)), 8 * 1.95);
}

/// Calls `check` with an evaluator and the best plan of each of many random problems.
template <typename Check> void onBestPlans(Objective objective, Check check) {
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProblem random(seed);
    random.request.objective = objective;
    random.request.microBatches = static_cast<int>(random.request.globalBatch.value());
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
    if (best.placement)
      check(evaluator, *evaluator.evaluate(*best.placement), *best.placement);
  }
}

TEST(Lagrangian, costNeverAboveTheBestPlan) {
  onBestPlans(Objective::Cost,
              [](Evaluator &evaluator, const Evaluation &best, const Placement &placement) {
                double cost = best.iteration.value() * best.price.value();
                StageTable table(evaluator, placement.microBatches);
                for (double limit : {infinity, cost * 1.5, cost * (1 + 1e-9)}) {
                  const SearchOptions options;
                  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
                  lagrangian.tighten(best.iteration.value() * (1 + 1e-9), limit);
                  EXPECT_LE(lagrangian.cost(open(evaluator)), cost * (1 + 3e-9));
                }
              });
}

/// A placement as the bounds see it: which of the options and positions of the space its stages
/// have.
struct Listed {
  Listed(const Evaluator &evaluator, const Placement &placement) {
    const SearchSpace &space = evaluator.space;
    auto positionOf = [&](int layer) {
      return int(llvm::lower_bound(space.positions, layer) - space.positions.begin());
    };
    for (const PlacedStage &stage : placement.stages) {
      auto option = llvm::find_if(
          space.options, [&](const GroupOption &option) { return option.group == stage.group; });
      stages.push_back(
          {positionOf(stage.begin), positionOf(stage.end), int(option - space.options.begin())});
    }
  }

  /// Whether each stage is among those that may stand before the ones behind it.
  bool mayStand(const Evaluator &evaluator, Lagrangian &lagrangian, double timeLimit) const {
    const std::vector<int> none(evaluator.space.available.size(), 0);
    PartialPlacement partial;
    partial.used = none;
    for (const StageSpan &stage : llvm::reverse(stages)) {
      llvm::SmallVector<StageSpan, 8> found;
      partial.position = stage.end;
      lagrangian.listExtensions(partial, timeLimit, infinity, found);
      if (llvm::none_of(found, [&](const StageSpan &each) {
            return each.begin == stage.begin && each.option == stage.option;
          }))
        return false;
      const bool isBeside = evaluator.space.options[stage.option].group.besideNext;
      partial.chain = evaluator.space.ownChain(stage.option) + (isBeside ? partial.chain : 0);
      partial.option = stage.option;
      ++partial.depth;
    }
    return true;
  }

  std::vector<StageSpan> stages;
};

/// The bound of what is before each cut of the best placement.
void expectBelow(const Evaluator &evaluator, const Lagrangian &lagrangian, const Evaluation &best,
                 const Listed &placement) {
  std::vector<int> used(evaluator.space.available.size(), 0);
  PartialPlacement partial;
  for (size_t i = best.stages.size(); i-- > 1;) {
    const Stage &stage = best.stages[i];
    const GroupOption &option = evaluator.space.options[placement.stages[i].option];
    for (size_t type = 0; type < used.size(); ++type)
      used[type] += option.slots[type];
    partial.chain = evaluator.space.ownChain(placement.stages[i].option) +
                    (option.group.besideNext ? partial.chain : 0);
    partial.position = placement.stages[i].begin;
    partial.option = placement.stages[i].option;
    partial.receive = stage.receive.value();
    partial.fill += (stage.forward + stage.backward).value();
    partial.slowest = std::max(partial.slowest, (stage.forward + stage.backward).value());
    partial.exposed = std::max(stage.sync.value(), partial.exposed - stage.backward.value());
    partial.price += option.price.value();
    partial.used = used;
    ++partial.depth;
    EXPECT_LE(lagrangian.time(partial), best.iteration.value() * (1 + 2e-9)) << "stage " << i;
  }
}

namespace {
/// With room for so many states, the neighbours of stages included.
void expectBelowTheBestPlan(int mostStates) {
  int sharpened = 0, compared = 0;
  onBestPlans(Objective::Throughput,
              [&](Evaluator &evaluator, const Evaluation &best, const Placement &placement) {
                double iteration = best.iteration.value();
                for (double target : {iteration * 1.5, iteration * (1 + 1e-9)}) {
                  StageTable table(evaluator, placement.microBatches);
                  SearchOptions options;
                  options.tuning.mostStates = mostStates;
                  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
                  lagrangian.tighten(target, infinity);
                  Listed listed(evaluator, placement);
                  // others may do as well
                  const bool isListed = listed.mayStand(evaluator, lagrangian, target);
                  sharpened += sharpen(lagrangian, target) > 0;
                  EXPECT_LE(lagrangian.time(open(evaluator)), iteration * (1 + 2e-9));
                  if (!isListed)
                    continue;
                  compared += best.stages.size() > 1;
                  EXPECT_TRUE(listed.mayStand(evaluator, lagrangian, target));
                  expectBelow(evaluator, lagrangian, best, listed);
                }
              });
  EXPECT_GT(sharpened, 100);
  EXPECT_GT(compared, 100);
}
} // namespace

TEST(Lagrangian, limitsThatAreKeptExactlyNeverPassTheBestPlan) {
  expectBelowTheBestPlan(SearchOptions().tuning.mostStates);
}

TEST(Lagrangian, LevelsWithoutNeighboursNeverPassTheBestPlan) { expectBelowTheBestPlan(2000); }

TEST(Lagrangian, pathsThatItMetArePlacementsWithinTheLimits) {
  int met = 0, severalStages = 0;
  onBestPlans(Objective::Throughput,
              [&](Evaluator &evaluator, const Evaluation &best, const Placement &placement) {
                StageTable table(evaluator, placement.microBatches);
                const SearchOptions options;
                Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
                lagrangian.tighten(best.iteration.value() * 1.5, infinity);
                for (const Lagrangian::Path &path : lagrangian.takePaths()) {
                  std::vector<int> used(evaluator.space.available.size(), 0);
                  int position = 0;
                  for (const StageSpan &stage : path) {
                    EXPECT_EQ(stage.begin, position);
                    position = stage.end;
                    for (size_t type = 0; type < used.size(); ++type)
                      used[type] += evaluator.space.options[stage.option].slots[type];
                  }
                  EXPECT_EQ(position + 1, int(evaluator.space.positions.size()));
                  for (size_t type = 0; type < used.size(); ++type)
                    EXPECT_LE(used[type], evaluator.space.available[type]);
                  ++met;
                  severalStages += path.size() > 1;
                }
                EXPECT_TRUE(lagrangian.takePaths().empty()) << "each once";
              });
  EXPECT_GT(met, 100);
  EXPECT_GT(severalStages, 10);
}

// Also of problems where the link of a node has more bandwidth and more latency than the network.
TEST(Lagrangian, neverAboveTheBestPlanOfItsMicroBatches) {
  onBestPlans(Objective::Throughput, [](Evaluator &evaluator, const Evaluation &best,
                                        const Placement &placement) {
    double iteration = best.iteration.value();
    for (double target : {infinity, iteration * 1.5, iteration * (1 + 1e-9)})
      EXPECT_LE(rootOf(evaluator, placement.microBatches, target), iteration * (1 + 2e-9));
  });
}

TEST(Lagrangian, moreDevicesOfAShareStayWhereTheirPartOfATableLeavesRoom) {
  // Micro-batches of five samples: shares of two on three devices and on four. Three hold two of
  // them beside 400 rows of the table, four hold three beside 300.
  Chain chain(3, 6, 20);
  Layer &layer = chain.graph.layers[0];
  layer.parameters = {"table"};
  layer.tables = {{"table", 1200, 1, DataType::Float32, 1}};
  layer.parameterBytes = layer.tables[0].bytes();
  layer.activationBytes = Bytes(100);
  chain.cluster.types[0].memory = Bytes(2200);
  chain.request.microBatches = 4;
  Problem problem = llvm::cantFail(chain.problem());
  Evaluator evaluator(problem);
  StageTable table(evaluator, 4);
  const SearchOptions options;
  Lagrangian lagrangian(evaluator, table, /*wholeModelGroups=*/true, options);
  lagrangian.tighten(infinity, infinity);
  PartialPlacement partial = open(evaluator);
  partial.position = 1;
  partial.depth = 1;
  llvm::SmallVector<StageSpan, 8> found;
  lagrangian.listExtensions(partial, infinity, infinity, found);
  std::set<int64_t> sizes;
  for (const StageSpan &stage : found)
    sizes.insert(evaluator.space.options[stage.option].group.deviceCount());
  auto mostInFlight = [&](int devices) {
    return evaluator.stages.mostInFlight({0, 1}, 0, devices, /*share=*/2, ExecutionMode());
  };
  ASSERT_EQ(mostInFlight(3), 2);
  ASSERT_GE(mostInFlight(4), 3);
  EXPECT_TRUE(sizes.count(3));
  EXPECT_TRUE(sizes.count(4));
}
