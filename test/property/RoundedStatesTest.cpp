// Exact search where states of the devices are rounded, on random small problems: nothing better is
// missed.
#include "search/Search.h"
#include "search/exact/StateSearch.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr int problems = 600;

/// Deeper than most random problems, with devices enough for several stages, and memory that forces
/// some of them to compute again.
RandomProblem randomProblem(int seed) {
  RandomProblem random(seed);
  random.request.objective = Objective::Throughput;
  random.request.maxCostPerHour = DollarsPerHour(0);
  std::mt19937_64 generator(seed * 7 + 3);
  auto below = [&](int most) { return int(generator() % uint64_t(most)); };
  for (NodeGroup &nodes : random.cluster.nodes)
    nodes.count = 2 + below(3);
  random.request.recompute = below(3) == 0 ? RecomputePolicy::Never : RecomputePolicy::Auto;
  if (below(2) == 0)
    random.request.shardState = StateSharding::None;
  return random;
}

/// Numbers by a seed.
class Dice {
public:
  explicit Dice(uint64_t seed) : generator(seed) {}
  int below(int limit) { return int(generator() % uint64_t(limit)); }
  double real(double low, double high) { return low + (high - low) * below(1000) / 1000; }

private:
  std::mt19937_64 generator;
};

/// A chain of many layers of few kinds, as deep models have them.
void makeDeepChain(RandomProblem &problem, Dice &dice) {
  const int layers = 12 + dice.below(12);
  std::vector<ConstantCostModel::Times> kinds(1 + dice.below(3));
  for (ConstantCostModel::Times &kind : kinds) {
    kind.forward = Seconds(dice.real(0.1, 1));
    kind.backward = Seconds(dice.real(0.1, 2));
    kind.update = Seconds(dice.real(0, 0.02));
    kind.overhead = Seconds(dice.real(0, 0.2));
    kind.accumulate = kind.update / 2;
  }
  problem.graph = {};
  problem.costs = {};
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.name = layer.signature = "layer" + std::to_string(i);
    layer.parameterBytes = Bytes(100);
    layer.activationBytes = Bytes(10);
    problem.graph.layers.push_back(layer);
    problem.costs.layer(layer.name, kinds[i % kinds.size()]);
    if (i > 0) {
      LayerTensor tensor;
      tensor.name = "tensor" + std::to_string(i);
      tensor.producer = i - 1;
      tensor.consumers = {i};
      tensor.bytesPerSample = Bytes(5);
      problem.graph.tensors.push_back(tensor);
    }
  }
}

/// Such a chain on three types of about ten devices each: states of them are rounded where few are
/// allowed, and all looked at where many are. Nodes have one device, so that none is shared.
RandomProblem deepProblem(int seed) {
  RandomProblem problem(seed);
  Dice dice(seed * 11 + 5);
  makeDeepChain(problem, dice);
  problem.cluster = {};
  for (int i = 0; i < 3; ++i) {
    DeviceType type;
    type.name = "type" + std::to_string(i);
    type.deviceClass = DeviceClass::Gpu;
    type.memory = Bytes(int64_t(dice.real(600, 2500)));
    type.price = DollarsPerHour(1);
    NodeGroup nodes;
    nodes.name = "group" + std::to_string(i);
    nodes.count = 8 + dice.below(5);
    nodes.devices[type.name] = 1;
    nodes.link = {"", BytesPerSecond(dice.real(500, 2000)), Seconds(0.001), ""};
    problem.costs.speed(type.name, dice.real(0.3, 3));
    problem.cluster.types.push_back(type);
    problem.cluster.nodes.push_back(nodes);
  }
  problem.cluster.network = {"", BytesPerSecond(dice.real(100, 500)), Seconds(0.005), ""};
  problem.request = {};
  problem.request.globalBatch = Samples(16 + dice.below(32));
  problem.request.objective = Objective::Throughput;
  return problem;
}

SearchOutcome solve(const Problem &problem, const SearchOptions &options) {
  return llvm::cantFail(search(problem, "label-setting", options));
}

/// The bound of StateSearch over all placements, and the best placement that it finds with an
/// objective below `limit`.
struct Settled {
  double left = std::numeric_limits<double>::infinity();
  Incumbent best;
};
Settled settle(Evaluator &evaluator, double limit, size_t states, StateSearch::SolveSizes sizes) {
  Settled result;
  result.best.objective = limit;
  const Request &request = evaluator.problem.request;
  const double longest = request.longestIteration().value() * (1 + 1e-9);
  const double time = request.objective == Objective::Throughput ? limit : longest;
  result.best.time = time;
  PathTable paths(evaluator);
  const SearchOptions options;
  StateSearch search(evaluator, paths, result.best, SearchBudget(options), states, 2048, sizes);
  for (int microBatches : evaluator.space.microBatches) {
    StageTable table(evaluator, microBatches);
    Lagrangian::Ascents memory;
    Bounds bounds(evaluator, table, /*wholeModelGroups=*/false, memory);
    bounds.tighten(time, limit);
    if (auto range = bounds.takeAll(time, limit))
      result.left = std::min(result.left, search.settle(table, *range));
  }
  result.left = std::min(result.left, search.leastMisjudged());
  return result;
}
} // namespace

/// Whatever is better than a bad plan is found, or within what is left.
TEST(RoundedStates, nothingBetterIsMissed) {
  int feasible = 0, found = 0, left = 0, deep = 0;
  for (int seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = randomProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    Evaluator evaluator(problem);
    if (!best.plan || !best.isProven() || best.plan->stages.size() < 2 ||
        !StateSearch::applies(evaluator, 0))
      continue;
    const double least = best.plan->iteration.value();
    for (size_t states : {10, 30, 100, 1'000'000}) {
      const Settled settled = settle(evaluator, least * 1.3, states, {});
      ++feasible;
      EXPECT_LE(std::min(settled.left, settled.best.objective), least * (1 + 1e-9));
      found += settled.best.objective <= least * (1 + 1e-9);
      left += settled.left < least * (1 - 1e-9);
      deep += best.plan->stages.size() > 2;
    }
  }
  EXPECT_GT(feasible, problems / 2);
  EXPECT_GT(found, feasible / 4);
  EXPECT_GT(left, feasible / 20);
  EXPECT_GT(deep, feasible / 10);
}

/// Rounded states miss nothing either if there are more states than are solved at once, so that
/// slowest stages are divided into bands.
TEST(RoundedStates, bandsMissNothing) {
  int feasible = 0, found = 0, left = 0;
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = deepProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    Evaluator evaluator(problem);
    const double least = best.plan->iteration.value();
    for (StateSearch::SolveSizes sizes : {StateSearch::SolveSizes{10'000, 100'000, 200'000},
                                          StateSearch::SolveSizes{1'000, 10'000, 2'000}})
      for (size_t states : {100, 400, 20'000}) {
        const Settled settled = settle(evaluator, least * 1.1, states, sizes);
        ++feasible;
        EXPECT_LE(std::min(settled.left, settled.best.objective), least * (1 + 1e-9));
        found += settled.best.objective <= least * (1 + 1e-9);
        left += settled.left < least * (1 - 1e-9);
      }
  }
  EXPECT_GT(found, feasible / 4);
  EXPECT_GT(left, feasible / 4);
}

TEST(RoundedStates, boundsHoldAndPlansArePlans) {
  int feasible = 0, tighter = 0, proven = 0;
  for (int seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = randomProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    for (size_t states : {4, 20, 60}) {
      SearchOptions few; // after some labels
      few.workLimit = 20;
      few.deviceStates = 0;
      const SearchOutcome without = solve(problem, few);
      few.deviceStates = states;
      const SearchOutcome found = solve(problem, few);
      if (!found.plan)
        continue;
      ASSERT_TRUE(best.plan);
      ++feasible;
      const double throughput = best.plan->objectiveValue;
      EXPECT_LE(found.plan->objectiveValue, throughput * (1 + 1e-9));
      EXPECT_GE(found.plan->lowerBound, throughput * (1 - 1e-9)) << states << " states";
      tighter += without.plan && found.plan->gap < without.plan->gap - 1e-9;
      proven += found.isProven();
    }
  }
  EXPECT_GT(feasible, problems);
  EXPECT_GT(tighter, problems / 50);
  EXPECT_GT(proven, problems / 20);
}

/// Exact states keep the cheapest placement, not the fastest. With cost as the objective, some
/// placements are slower than others and better. Against labels, which know no states.
TEST(DeviceStates, cheaperPlansAreNotMissed) {
  int feasible = 0, deep = 0;
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProblem random = deepProblem(seed);
    Dice dice(seed * 13 + 1);
    for (DeviceType &type : random.cluster.types)
      type.price = DollarsPerHour(dice.real(0.2, 3));
    for (NodeGroup &nodes : random.cluster.nodes)
      nodes.count = 2 + dice.below(3);
    Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome fastest = solve(problem, {});
    if (!fastest.plan)
      continue;
    random.request.objective = Objective::Cost;
    random.request.minThroughput = fastest.plan->throughput * dice.real(0.3, 0.9);
    problem = llvm::cantFail(random.problem());
    SearchOptions byLabels;
    byLabels.deviceStates = 0;
    const SearchOutcome best = solve(problem, byLabels);
    ASSERT_TRUE(best.plan && best.isProven());
    Evaluator evaluator(problem);
    const double cost = best.plan->objectiveValue;
    for (double farther : {1.01, 1.2, 2.0}) {
      const Settled settled = settle(evaluator, cost * farther, 1'000'000, {});
      ++feasible;
      EXPECT_LE(std::min(settled.left, settled.best.objective), cost * (1 + 1e-9)) << farther;
      deep += best.plan->stages.size() > 2;
    }
  }
  EXPECT_GT(feasible, 60);
  EXPECT_GT(deep, feasible / 5);
}

/// The search reexamines the remainder of few states with more states; with an allowed gap it ends
/// before it has examined everything. No bound may be lost on the way.
TEST(RoundedStates, boundsOfDeepChainsHold) {
  int feasible = 0, missed = 0, tighter = 0, proven = 0;
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = deepProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    ASSERT_TRUE(best.plan && best.isProven());
    const double throughput = best.plan->objectiveValue;
    for (double gap : {0.0, 0.01}) {
      SearchOptions few;
      few.gap = gap;
      few.workLimit = 20'000;
      few.deviceStates = 0;
      const double without = solve(problem, few).plan->gap;
      for (size_t states : {30, 60, 120}) {
        few.deviceStates = states;
        const SearchOutcome found = solve(problem, few);
        ASSERT_TRUE(found.plan);
        ++feasible;
        EXPECT_LE(found.plan->objectiveValue, throughput * (1 + 1e-9));
        EXPECT_GE(found.plan->lowerBound, throughput * (1 - 1e-9)) << states << " states";
        missed += found.plan->objectiveValue < throughput * (1 - 1e-9);
        tighter += found.plan->gap < without - 1e-9;
        proven += found.isProven();
      }
    }
  }
  EXPECT_GT(missed, feasible / 20); // where a bound that is lost shows
  EXPECT_GT(tighter, feasible / 20);
  EXPECT_GT(proven, feasible / 20);
}
