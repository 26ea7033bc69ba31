#include "ir/sharding/LocalGraph.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/group/NodeTimes.h"
#include "ir/onnx/group/Roles.h"
#include "ir/sharding/DividedModel.h"
#include "support/Diagnostic.h"
#include "unit/codegen/GraphBuilder.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

class LocalGraphOfMlp : public testing::Test {
protected:
  void SetUp() override {
    GraphBuilder b;
    TensorId x = b.input("x", batched({8}));
    x = b.node("up", "MatMul", {x, b.parameter("w1", {8, 32})}, batched({32}));
    x = b.node("relu", "Relu", {x}, batched({32}));
    x = b.node("down", "MatMul", {x, b.parameter("w2", {32, 8})}, batched({8}));
    b.graph.outputs = {x};
    markDifferentiable(b.graph);
    whole = b.graph;
    ShardMachine machine;
    machine.latency = Seconds(1e-9);
    ShardProblem problem{whole, shardSpace(whole, 2),
                         nodeTimes(whole, 1, FlopsPerSecond(1e9), BytesPerSecond(1e10)), machine};
    auto built = localGraph(whole, bestAssignment(problem), machine);
    ASSERT_TRUE(static_cast<bool>(built));
    local = *built;
  }

  std::string fault() const {
    llvm::Error error = verify(local, whole);
    return error ? toText(std::move(error)) : "";
  }

  Graph whole;
  LocalGraph local;
};

TEST_F(LocalGraphOfMlp, SlicesWeightsAndSumsTheResult) {
  EXPECT_EQ(local.graph.tensors[1].shape, fixedShape({8, 16}));
  EXPECT_EQ(local.graph.tensors[4].shape, fixedShape({16, 8}));
  EXPECT_EQ(local.slicedTensors(), std::vector<TensorId>({1, 4}));
  ASSERT_EQ(local.graph.nodes.size(), 4u);
  EXPECT_EQ(local.graph.nodes.back().op, "ShardAllReduce");
  EXPECT_EQ(local.graph.tensors[local.graph.outputs[0]].name, "down");
  EXPECT_EQ(fault(), "");
}

TEST_F(LocalGraphOfMlp, RefusesAShapeThatIsNotAShards) {
  local.graph.tensors[1].shape = fixedShape({8, 32});
  EXPECT_NE(fault().find("its shape is not the one of a shard"), std::string::npos) << fault();
}

TEST_F(LocalGraphOfMlp, RefusesStatesThatNoRuleAllows) {
  local.states[4] = {};
  local.graph.tensors[4].shape = fixedShape({32, 8});
  EXPECT_NE(fault().find("no rule of MatMul allows its states"), std::string::npos) << fault();
}

TEST_F(LocalGraphOfMlp, RefusesAnOutputThatIsASummand) {
  local.graph.nodes.pop_back();
  local.graph.outputs = whole.outputs;
  EXPECT_NE(fault().find("the output is not whole"), std::string::npos) << fault();
}

TEST_F(LocalGraphOfMlp, RefusesACollectiveOfAnotherState) {
  local.graph.nodes.back().op = "ShardGather";
  EXPECT_NE(fault().find("it makes replicated of partial"), std::string::npos) << fault();
}

TEST_F(LocalGraphOfMlp, RefusesAMissingNode) {
  local.graph.nodes.erase(local.graph.nodes.begin());
  EXPECT_NE(fault().find("before it is computed"), std::string::npos) << fault();
}

TEST_F(LocalGraphOfMlp, KnowsWhichTensorsAreWhole) {
  const std::vector<TensorId> originals = local.originals();
  const std::vector<bool> areWhole = local.areWhole();
  const TensorId output = local.graph.outputs[0], hidden = whole.nodes[1].outputs[0];
  EXPECT_EQ(originals[output], whole.outputs[0]);
  EXPECT_EQ(local.wholeNames[originals[output]], "down");
  EXPECT_TRUE(areWhole[output]);
  EXPECT_FALSE(areWhole[whole.outputs[0]]) << "a summand";
  EXPECT_FALSE(areWhole[hidden]) << "a slice";
  for (const char *op : {"ShardCopy", "ShardGatherSum"}) {
    local.graph.nodes.back().op = op;
    EXPECT_FALSE(local.areWhole()[output]) << "its gradient is a summand after " << op;
  }
}

TEST_F(LocalGraphOfMlp, LetsNoStageBeginWhereShardsHaveSlices) {
  auto wholeLayers = groupLayers(whole), layers = groupLayers(local.graph);
  ASSERT_TRUE(wholeLayers && layers);
  layers->shardDegree = 2;
  const LayerGraph planned = withShards(*wholeLayers, {ModelShard{local, *layers}});
  EXPECT_EQ(toText(planned.verify()), "");
  ASSERT_EQ(planned.size(), 2);
  EXPECT_EQ(planned.degrees(), (std::vector<int>{1, 2}));
  EXPECT_EQ(planned.layers[0].shards[0].parameterBytes, Bytes(4 * 8 * 16));
  EXPECT_TRUE(planned.layers[1].continuesStage);
  EXPECT_EQ(planned.allowedCuts(), (std::vector<bool>{true, false, true}));
}

} // namespace
