#include "ir/SeriesParallel.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace heterplan;

namespace {

using Edges = std::vector<std::pair<int, int>>;

/// Layers "0", "1", ...; each with one tensor of 2^layer bytes to the layers that `edges` say.
LayerGraph graphOf(int layers, const Edges &edges) {
  LayerGraph graph;
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.name = std::to_string(i);
    layer.signature = "s";
    graph.layers.push_back(layer);
    LayerTensor tensor;
    tensor.name = "t" + layer.name;
    tensor.producer = i;
    tensor.bytesPerSample = Bytes(double(1 << i));
    tensor.differentiable = i % 3 != 0;
    for (auto [from, to] : edges)
      if (from == i)
        tensor.consumers.push_back(to);
    graph.tensors.push_back(tensor);
  }
  return graph;
}

/// As "S(0 P(1 2) 3)".
std::string text(const Block &block) {
  if (block.kind == Block::Kind::Layer)
    return std::to_string(block.layer);
  std::string result(1, "?SPG"[static_cast<int>(block.kind)]);
  result += '(';
  for (const Block &child : block.children)
    result += (result.size() > 2 ? " " : "") + text(child);
  return result + ")";
}

std::string structureOf(int layers, const Edges &edges) {
  LayerGraph graph = graphOf(layers, edges);
  EXPECT_FALSE(graph.verify());
  Block block = decompose(graph);
  if (llvm::Error error = verify(block, graph))
    ADD_FAILURE() << toText(std::move(error));
  return text(block);
}

TEST(SeriesParallel, Chains) {
  EXPECT_EQ(structureOf(1, {}), "0");
  EXPECT_EQ(structureOf(3, {{0, 1}, {1, 2}}), "S(0 1 2)");
}

TEST(SeriesParallel, AResidualIsStillASeries) {
  LayerGraph graph = graphOf(3, {{0, 1}, {1, 2}, {0, 2}});
  Block block = decompose(graph);
  EXPECT_EQ(text(block), "S(0 1 2)");
  EXPECT_EQ(block.cuts[1].forward, Bytes(3.0));
  EXPECT_EQ(block.cuts[1].backward, Bytes(2.0));
  EXPECT_EQ(block.cuts[1].tensors, 2);
}

TEST(SeriesParallel, Branches) {
  EXPECT_EQ(structureOf(5, {{0, 1}, {0, 2}, {2, 3}, {1, 4}, {3, 4}}), "S(0 P(1 S(2 3)) 4)");
  EXPECT_EQ(structureOf(4, {{0, 1}, {2, 3}}), "P(S(0 1) S(2 3))");
  EXPECT_EQ(structureOf(4, {{0, 3}, {1, 3}, {2, 3}}), "S(P(0 1 2) 3)");
}

TEST(SeriesParallel, BranchesThatMeetInBranches) {
  EXPECT_EQ(structureOf(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}}), "S(P(0 1) P(2 3))");
}

TEST(SeriesParallel, WhatIsNeitherIsGeneral) {
  EXPECT_EQ(structureOf(4, {{0, 2}, {1, 2}, {1, 3}}), "G(0 1 2 3)");
  EXPECT_EQ(structureOf(6, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {2, 4}, {3, 5}, {4, 5}}),
            "S(0 G(1 2 3 4) 5)");
}

TEST(SeriesParallel, ATensorOfManyUsersCrossesOnce) {
  LayerGraph graph = graphOf(5, {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}});
  Block block = decompose(graph);
  ASSERT_EQ(text(block), "S(0 P(1 2 3) 4)");
  EXPECT_EQ(block.children[1].inputs.forward, Bytes(1.0));
  EXPECT_EQ(block.children[1].outputs.forward, Bytes(14.0));
  EXPECT_EQ(block.cuts[0].tensors, 1);
}

TEST(SeriesParallel, DeepNestsEndInAGeneralBlock) {
  // 0 -> (1 | 2 -> (3 | 4 -> ...)), each joined by the last layer.
  Edges edges;
  for (int i = 0; i < 20; i += 2)
    edges.insert(edges.end(), {{i, i + 1}, {i, i + 2}, {i + 1, 21}});
  edges.push_back({20, 21});
  LayerGraph graph = graphOf(22, edges);
  Block block = decompose(graph, 3);
  EXPECT_FALSE(verify(block, graph));
  EXPECT_NE(text(block).find("G("), std::string::npos) << text(block);
  EXPECT_EQ(text(decompose(graph)).find("G("), std::string::npos);
}

TEST(SeriesParallel, VerifyFindsWhatIsWrong) {
  LayerGraph graph = graphOf(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  Block good = decompose(graph);
  ASSERT_EQ(text(good), "S(0 P(1 2) 3)");
  Block twice = good, swapped = good, series = good, count = good;
  twice.children[2].layer = 0;
  std::swap(swapped.children[0], swapped.children[2]);
  series.children[1].kind = Block::Kind::Series;
  series.children[1].cuts.resize(1);
  series.children[1].passing.resize(1);
  count.layers = 3;
  for (const Block &bad : {twice, swapped, series, count})
    EXPECT_TRUE(llvm::errorToBool(verify(bad, graph))) << text(bad);
}

// ---- against the definitions, on random graphs

class Reference {
public:
  explicit Reference(const LayerGraph &graph)
      : graph(graph), before(graph.layers.size(), std::vector<bool>(graph.layers.size())) {
    for (int from = graph.size(); from-- > 0;)
      for (int to : graph.tensors[from].consumers) {
        before[from][to] = true;
        for (int more = 0; more < graph.size(); ++more)
          before[from][more] = before[from][more] || before[to][more];
      }
  }

  void check(const Block &block) {
    std::set<int> members = layersOf(block);
    EXPECT_EQ(block.layers, static_cast<int>(members.size()));
    expectFlow(block.inputs, [&](const LayerTensor &t) {
      return !members.count(t.producer) && usedBy(t, members);
    });
    expectFlow(block.outputs, [&](const LayerTensor &t) {
      return members.count(t.producer) && usedOutside(t, members);
    });
    if (block.kind == Block::Kind::Layer)
      return;
    checkKind(block, members);
    for (size_t cut = 0; cut < block.cuts.size(); ++cut)
      checkCut(block, members, cut);
    for (const Block &child : block.children)
      check(child);
  }

private:
  const LayerGraph &graph;
  std::vector<std::vector<bool>> before;

  static std::set<int> layersOf(const Block &block) {
    if (block.kind == Block::Kind::Layer)
      return {block.layer};
    std::set<int> result;
    for (const Block &child : block.children)
      for (int layer : layersOf(child))
        EXPECT_TRUE(result.insert(layer).second);
    return result;
  }
  static bool usedBy(const LayerTensor &tensor, const std::set<int> &layers) {
    return llvm::any_of(tensor.consumers, [&](int user) { return layers.count(user) != 0; });
  }
  static bool usedOutside(const LayerTensor &tensor, const std::set<int> &layers) {
    return llvm::any_of(tensor.consumers, [&](int user) { return layers.count(user) == 0; });
  }

  template <typename Crosses> void expectFlow(const Flow &flow, Crosses crosses) {
    Flow expected;
    for (const LayerTensor &tensor : graph.tensors)
      if (crosses(tensor)) {
        ++expected.tensors;
        expected.forward += tensor.bytesPerSample;
        expected.backward += tensor.differentiable ? tensor.bytesPerSample : Bytes{};
      }
    EXPECT_EQ(flow, expected);
  }

  bool ordered(const std::set<int> &a, const std::set<int> &b) {
    for (int x : a)
      for (int y : b)
        if (!before[x][y])
          return false;
    return true;
  }
  bool apart(const std::set<int> &a, const std::set<int> &b) {
    for (int x : a)
      for (int y : b)
        if (before[x][y] || before[y][x])
          return false;
    return true;
  }

  void checkKind(const Block &block, const std::set<int> &members) {
    for (size_t i = 0; i + 1 < block.children.size(); ++i) {
      std::set<int> one = layersOf(block.children[i]), next = layersOf(block.children[i + 1]);
      EXPECT_TRUE(block.kind != Block::Kind::Series || ordered(one, next));
      EXPECT_TRUE(block.kind != Block::Kind::Parallel || apart(one, next));
      EXPECT_LT(*one.begin(), *next.begin());
    }
    if (block.kind == Block::Kind::General)
      expectIndivisible(members);
  }

  /// No subset is a first part in series or a branch: only for few layers.
  void expectIndivisible(const std::set<int> &members) {
    std::vector<int> list(members.begin(), members.end());
    for (unsigned bits = 1; bits + 1 < 1u << list.size(); ++bits) {
      std::set<int> part, rest;
      for (size_t i = 0; i < list.size(); ++i)
        (bits >> i & 1 ? part : rest).insert(list[i]);
      EXPECT_FALSE(ordered(part, rest) || apart(part, rest));
    }
  }

  void checkCut(const Block &block, const std::set<int> &members, size_t cut) {
    std::set<int> first, later;
    for (size_t i = 0; i < block.children.size(); ++i)
      for (int layer : layersOf(block.children[i]))
        (i <= cut ? first : later).insert(layer);
    expectFlow(block.cuts[cut], [&](const LayerTensor &t) {
      return first.count(t.producer) && usedOutside(t, first);
    });
    expectFlow(block.passing[cut], [&](const LayerTensor &t) {
      return !members.count(t.producer) && usedBy(t, later);
    });
  }
};

TEST(SeriesParallel, AgreesWithTheDefinitionsOnRandomGraphs) {
  std::mt19937 random(7);
  int general = 0;
  for (int round = 0; round < 1500; ++round) {
    int layers = 1 + static_cast<int>(random() % 9), density = 1 + static_cast<int>(random() % 6);
    Edges edges;
    for (int from = 0; from < layers; ++from)
      for (int to = from + 1; to < layers; ++to)
        if (static_cast<int>(random() % 7) < density)
          edges.emplace_back(from, to);
    LayerGraph graph = graphOf(layers, edges);
    Block block = decompose(graph);
    EXPECT_FALSE(llvm::errorToBool(verify(block, graph)));
    Reference(graph).check(block);
    general += text(block).find("G(") != std::string::npos;
    if (HasFailure())
      FAIL() << text(block);
  }
  EXPECT_GT(general, 50);
}

TEST(SeriesParallel, FlowsAreThoseOfTheCuts) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Edges edges;
    for (int from = 0; from < 12; ++from)
      for (int to = from + 1; to < 12; ++to)
        if (random() % 5 == 0)
          edges.emplace_back(from, to);
    LayerGraph graph = graphOf(12, edges);
    std::vector<Cut> cuts = graph.cuts();
    std::vector<Flow> flows = cutFlows(graph);
    ASSERT_EQ(cuts.size(), flows.size());
    for (size_t i = 0; i < cuts.size(); ++i) {
      EXPECT_EQ(flows[i].forward, cuts[i].forwardBytes);
      EXPECT_EQ(flows[i].backward, cuts[i].backwardBytes);
      EXPECT_EQ(flows[i].fixed, cuts[i].fixedBytes);
      EXPECT_EQ(flows[i].tensors, static_cast<int>(cuts[i].tensors.size()));
    }
    Block block = decompose(graph);
    for (size_t i = 0; block.kind == Block::Kind::General && i < block.cuts.size(); ++i)
      EXPECT_EQ(block.cuts[i], flows[i + 1]);
  }
}

} // namespace
