// Exact search of deep chains that is cut short: its bounds hold.
#include "search/Search.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <random>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
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

/// Such a chain on three types of about ten devices each. Nodes have one device, so that none is
/// shared.
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

/// The bounds rest on relaxations, on levels of the scarcest types and on open labels, by how much
/// work there is; with an allowed gap the search ends early. No bound may be lost on the way.
TEST(DeepChains, boundsHoldHoweverLittleWorkIsDone) {
  int feasible = 0, missed = 0, open = 0, proven = 0;
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = deepProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    ASSERT_TRUE(best.plan && best.isProven());
    const double throughput = best.plan->objectiveValue;
    for (double gap : {0.0, 0.01})
      for (int64_t work : {300, 1'000, 3'000, 20'000}) {
        SearchOptions little;
        little.gap = gap;
        little.workLimit = work;
        const SearchOutcome found = solve(problem, little);
        ASSERT_TRUE(found.plan);
        ++feasible;
        EXPECT_LE(found.plan->objectiveValue, throughput * (1 + 1e-9));
        EXPECT_GE(found.plan->lowerBound, throughput * (1 - 1e-9)) << work << " units of work";
        missed += found.plan->objectiveValue < throughput * (1 - 1e-9);
        open += found.plan->gap > gap + 1e-9;
        proven += found.isProven();
      }
  }
  EXPECT_GT(missed, feasible / 20); // where a bound that is lost shows
  EXPECT_GT(open, feasible / 20);
  EXPECT_GT(proven, feasible / 20);
}
} // namespace
