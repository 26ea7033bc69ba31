#include "ir/onnx/group/StageBoundaries.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/group/Roles.h"
#include "ir/onnx/group/ShardedLayers.h"
#include "support/Diagnostic.h"
#include "unit/codegen/GraphBuilder.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

/// Products that widen and narrow in turn, with an operator that divided devices keep slices of.
class NarrowAndWide : public testing::Test {
protected:
  void SetUp() override {
    GraphBuilder b;
    TensorId x = b.input("x", batched({32}));
    for (int pair = 0; pair < 3; ++pair) {
      const std::string number = std::to_string(pair);
      x = b.node("up" + number, "MatMul", {x, b.parameter("u" + number, {32, 128})},
                 batched({128}));
      x = b.node("down" + number, "MatMul", {x, b.parameter("d" + number, {128, 32})},
                 batched({32}));
      x = b.node("tanh" + number, "Tanh", {x}, batched({32}));
    }
    b.graph.outputs = {x};
    markDifferentiable(b.graph);
    graph = b.graph;
    auto grouped = groupLayers(graph);
    ASSERT_TRUE(static_cast<bool>(grouped));
    whole = *grouped;
    ASSERT_EQ(whole.size(), 6);
  }

  std::vector<ModelShard> shards(std::vector<int> degrees) {
    return shardLayers(graph, whole, degrees, SequenceParallel::Auto,
                       [&](int degree, llvm::Error error) {
                         refused.push_back(degree);
                         llvm::consumeError(std::move(error));
                       });
  }

  Graph graph;
  LayerGraph whole;
  std::vector<int> refused;
};

TEST_F(NarrowAndWide, MissCutsWhereTheyAreNarrow) {
  LayerGraph divided = whole;
  for (int i = 1; i < 6; ++i)
    divided.layers[i].continuesStage = true;
  EXPECT_EQ(missingBoundaries(whole, divided), (std::vector<int>{2, 4}));
  divided.layers[2].continuesStage = false;
  EXPECT_EQ(missingBoundaries(whole, divided), (std::vector<int>{4}));
}

TEST_F(NarrowAndWide, StagesBeginBehindEachPair) {
  auto alone = shardLayers(graph, whole, 2, SequenceParallel::Auto);
  ASSERT_TRUE(static_cast<bool>(alone));
  EXPECT_EQ(withShards(whole, {*alone}).allowedCuts(),
            (std::vector<bool>{true, false, false, false, false, false, true}));
  const LayerGraph divided = withShards(whole, shards({2, 4}));
  EXPECT_EQ(divided.allowedCuts(),
            (std::vector<bool>{true, false, true, false, true, false, true}));
  EXPECT_EQ(divided.degrees(), (std::vector<int>{1, 2, 4}));
  EXPECT_TRUE(refused.empty());
}

TEST_F(NarrowAndWide, ConsumersBehindTheCutTakeTheOldNumber) {
  const GraphWithBoundaries with = withBoundaries(graph, whole, {2});
  ASSERT_EQ(with.graph.nodes.size(), graph.nodes.size() + 1);
  const GraphNode &identity = with.graph.nodes[3];
  EXPECT_EQ(identity.op, "Identity");
  EXPECT_TRUE(with.nodes.contains(identity.name));
  const TensorId old = graph.nodes[2].outputs[0];
  EXPECT_EQ(identity.outputs[0], old);
  EXPECT_EQ(with.graph.nodes[2].outputs[0], identity.inputs[0]);
  EXPECT_EQ(with.graph.nodes[4].inputs[0], old);
  EXPECT_EQ(with.graph.tensors[old].name, graph.tensors[old].name);
  EXPECT_EQ(with.graph.tensors.size(), graph.tensors.size() + 1);
}

} // namespace
