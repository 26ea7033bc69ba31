#include "ir/onnx/group/ShardedLayers.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/group/Operators.h"
#include "ir/onnx/group/Roles.h"
#include "support/Diagnostic.h"
#include "unit/codegen/GraphBuilder.h"

#include <gtest/gtest.h>

#include <map>

using namespace heterplan;

namespace {

constexpr int64_t tokens = 2048, width = 1024;

/// An MLP block behind a norm, with a residual connection: x + down(relu(up(norm(x)))).
TensorId addBlock(GraphBuilder &b, TensorId x, const std::string &name) {
  const auto weight = [&](const char *what, int64_t rows, int64_t columns) {
    return b.parameter(name + what, {rows, columns});
  };
  TensorId y =
      b.node(name + "norm", "LayerNormalization",
             {x, b.parameter(name + "scale", {width}), b.parameter(name + "bias", {width})},
             batched({tokens, width}));
  y = b.node(name + "up", "MatMul", {y, weight("u", width, 4 * width)},
             batched({tokens, 4 * width}));
  y = b.node(name + "relu", "Relu", {y}, batched({tokens, 4 * width}));
  y = b.node(name + "down", "MatMul", {y, weight("d", 4 * width, width)}, batched({tokens, width}));
  return b.node(name + "sum", "Add", {x, y}, batched({tokens, width}));
}

class LongSequence : public testing::Test {
protected:
  void SetUp() override {
    GraphBuilder b;
    TensorId x = b.input("x", batched({tokens, width}));
    x = b.node("in", "Add", {x, b.parameter("table", {tokens, width})}, batched({tokens, width}));
    for (const char *name : {"a.", "b."})
      x = addBlock(b, x, name);
    b.graph.outputs = {x};
    markDifferentiable(b.graph);
    graph = b.graph;
    auto grouped = groupLayers(graph);
    ASSERT_TRUE(static_cast<bool>(grouped));
    whole = *grouped;
  }

  ModelShard shard(SequenceParallel sequence) {
    auto result = shardLayers(graph, whole, 4, sequence);
    EXPECT_TRUE(static_cast<bool>(result));
    return result ? std::move(*result) : ModelShard();
  }

  static std::map<ShardOperator, int> operatorsOf(const ModelShard &shard) {
    std::map<ShardOperator, int> counts;
    for (const GraphNode &node : shard.local.graph.nodes)
      if (auto op = shardOperator(node))
        ++counts[*op];
    return counts;
  }

  Graph graph;
  LayerGraph whole;
};

TEST_F(LongSequence, IsDividedBetweenProducts) {
  const ModelShard divided = shard(SequenceParallel::Auto);
  auto counts = operatorsOf(divided);
  EXPECT_EQ(counts[ShardOperator::ShardReduceScatter], 2);
  EXPECT_EQ(counts[ShardOperator::ShardAllReduce], 0);
  EXPECT_EQ(divided.layers.division.sequence, SequenceParallel::Auto);
  for (const GraphNode &node : divided.local.graph.nodes)
    if (node.op == "LayerNormalization") {
      EXPECT_EQ(divided.local.states[node.inputs[0]], ShardState::along(1, {tokens})) << node.name;
    }
}

TEST_F(LongSequence, IsWholeIfAskedFor) {
  const ModelShard whole = shard(SequenceParallel::Never);
  auto counts = operatorsOf(whole);
  EXPECT_EQ(counts[ShardOperator::ShardAllReduce], 2);
  EXPECT_EQ(counts[ShardOperator::ShardReduceScatter], 0);
  EXPECT_EQ(whole.layers.division, ModelDivision());
}

TEST_F(LongSequence, IsCastBeforeItIsGatheredForProducts) {
  const ModelShard divided = shard(SequenceParallel::Auto);
  std::map<std::string, bool> casts;
  for (const GraphNode &node : divided.local.graph.nodes)
    if (auto op = shardOperator(node);
        op == ShardOperator::ShardGather || op == ShardOperator::ShardGatherSum)
      casts[node.name] = node.attributes.count(halfAttribute);
  const std::map<std::string, bool> expected = {{"a.norm/ShardGatherSum", true},
                                                {"b.norm/ShardGatherSum", true},
                                                {"b.sum/ShardGather", false}};
  EXPECT_EQ(casts, expected) << "the output of the model is not cast";
}

TEST_F(LongSequence, SlicesCrossCuts) {
  const ModelShard divided = shard(SequenceParallel::Auto);
  for (const LayerTensor &tensor : divided.layers.tensors)
    EXPECT_EQ(tensor.name.find("ShardGather"), std::string::npos) << tensor.name;
}

} // namespace
