#include "search/problem/LayerOrders.h"

#include "cost/ConstantCostModel.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace heterplan;

namespace {
const ConstantCostModel alike({Seconds(1), Seconds(2)});

void flow(LayerGraph &graph, int producer, std::vector<int> consumers, double bytes = 8) {
  LayerTensor tensor;
  tensor.name = "t" + std::to_string(graph.tensors.size());
  tensor.producer = producer;
  tensor.consumers = std::move(consumers);
  tensor.bytesPerSample = Bytes(bytes);
  graph.tensors.push_back(std::move(tensor));
}

LayerGraph layers(int count) {
  LayerGraph graph;
  for (int i = 0; i < count; ++i) {
    Layer layer;
    layer.name = layer.signature = "l" + std::to_string(i);
    graph.layers.push_back(layer);
  }
  return graph;
}

/// Branches between a stem and a head, level by level. Their last tensors are small.
LayerGraph towers(int branches, int depth) {
  LayerGraph graph = layers(branches * depth + 2);
  const int head = graph.size() - 1;
  std::vector<int> first(branches);
  std::iota(first.begin(), first.end(), 1);
  flow(graph, 0, first);
  for (int layer = 1; layer < head; ++layer)
    flow(graph, layer, {std::min(layer + branches, head)}, layer + branches < head ? 8 : 0.001);
  return graph;
}

Problem problemOf(LayerGraph graph) {
  Problem problem;
  problem.graph = std::move(graph);
  problem.cluster.types.emplace_back().name = "gpu";
  problem.costs = &alike;
  return problem;
}

std::optional<std::vector<int>> narrowOrder(const Problem &problem) {
  return LayerOrders(problem).narrowest();
}

/// The sum of the bytes that cross all cuts.
double crossing(const LayerGraph &graph) {
  double sum = 0;
  for (const Cut &cut : graph.cuts())
    sum += cut.forwardBytes.value();
  return sum;
}

/// Layers that depend on one to three layers before them.
LayerGraph randomGraph(unsigned seed, int count) {
  std::mt19937 random(seed);
  LayerGraph graph = layers(count);
  std::vector<std::vector<int>> readers(count);
  for (int layer = 1; layer < count; ++layer)
    for (int edge = 0; edge < 1 + int(random() % 3); ++edge)
      readers[random() % layer].push_back(layer);
  for (int layer = 0; layer < count; ++layer) {
    llvm::sort(readers[layer]);
    readers[layer].erase(std::unique(readers[layer].begin(), readers[layer].end()),
                         readers[layer].end());
    if (!readers[layer].empty())
      flow(graph, layer, readers[layer], 1 + double(random() % 9));
  }
  return graph;
}

/// The least crossing() of all topological orders in which the last layer is the last.
double leastCrossing(const LayerGraph &graph) {
  const int count = graph.size();
  std::vector<double> least(size_t(1) << count, -1); // by set of first layers
  std::function<double(size_t)> rest = [&](size_t done) -> double {
    if (least[done] >= 0)
      return least[done];
    double width = 0;
    size_t blocked = done;
    for (const LayerTensor &tensor : graph.tensors) {
      bool isMade = done >> tensor.producer & 1;
      for (int consumer : tensor.consumers)
        if (!isMade)
          blocked |= size_t(1) << consumer;
      if (isMade && llvm::any_of(tensor.consumers, [&](int each) { return !(done >> each & 1); }))
        width += tensor.bytesPerSample.value();
    }
    const size_t all = (size_t(1) << count) - 1;
    double best = done == all ? 0 : 1e300;
    for (int layer = 0; layer < count; ++layer) {
      const size_t next = done | size_t(1) << layer;
      if (!(blocked >> layer & 1) && (layer + 1 < count || next == all))
        best = std::min(best, rest(next));
    }
    return least[done] = best + width;
  };
  return rest(0);
}
} // namespace

TEST(LayerOrders, HasNoneForChains) {
  LayerGraph chain = layers(20);
  for (int layer = 0; layer < 19; ++layer)
    flow(chain, layer, {layer + 1});
  EXPECT_FALSE(narrowOrder(problemOf(chain)));
}

TEST(LayerOrders, PutsBranchesBehindEachOther) {
  const LayerGraph graph = towers(4, 8);
  const auto found = narrowOrder(problemOf(graph));
  ASSERT_TRUE(found);
  for (size_t i = 1; i + 1 < found->size(); ++i)
    if (i % 8 != 0) {
      EXPECT_EQ((*found)[i + 1], (*found)[i] + 4) << i;
    }
  EXPECT_FALSE(narrowOrder(problemOf(permuted(graph, *found)))) << "it is narrow already";
}

TEST(LayerOrders, KeepsLayersTogetherThatNoCutMayPart) {
  LayerGraph graph = towers(3, 4);
  graph.layers[5].continuesStage = true;
  Problem problem = problemOf(graph);
  problem.request.colocations = {{"l8", "l9"}};
  const auto found = narrowOrder(problem);
  ASSERT_TRUE(found);
  const auto place = [&](int layer) { return llvm::find(*found, layer) - found->begin(); };
  EXPECT_EQ(place(5), place(4) + 1);
  EXPECT_EQ(place(9), place(8) + 1);
}

TEST(LayerOrders, KeepsTheFirstUserOfATiedParameterFirst) {
  LayerGraph graph = towers(2, 6);
  graph.layers[2].parameters = graph.layers[11].parameters = {"w"}; // of both branches
  const auto found = narrowOrder(problemOf(graph));
  ASSERT_TRUE(found);
  EXPECT_LT(llvm::find(*found, 2), llvm::find(*found, 11));
  EXPECT_EQ(found->back(), 13);
}

TEST(LayerOrders, IsNearlyAsNarrowAsTheBestOfAllOrders) {
  double found = 0, best = 0, given = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const LayerGraph graph = randomGraph(seed, 12);
    const auto order = narrowOrder(problemOf(graph));
    const LayerGraph ordered = order ? permuted(graph, *order) : graph;
    EXPECT_EQ(toText(ordered.verify()), "") << seed;
    const double least = leastCrossing(graph);
    EXPECT_LE(least, crossing(ordered) + 1e-9) << seed;
    found += crossing(ordered) / least;
    given += crossing(graph) / least;
    best += 1;
  }
  EXPECT_LT(found / best, 1.1);
  EXPECT_GT(given / best, 1.1);
}

TEST(LayerOrders, ServesThousandsOfLayers) {
  for (auto [branches, depth] : {std::pair(4, 500), {500, 4}}) {
    const auto found = narrowOrder(problemOf(towers(branches, depth)));
    ASSERT_TRUE(found);
    const LayerGraph graph = towers(branches, depth);
    EXPECT_LT(crossing(permuted(graph, *found)) * branches, crossing(graph) * 2.5);
  }
}
