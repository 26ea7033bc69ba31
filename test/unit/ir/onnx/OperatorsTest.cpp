// Laws that every line of Operators.def keeps.
#include "Models.h"

#include "ir/onnx/Operators.h"

#include "onnx/defs/schema.h"

#include <set>

using namespace heterplan;
using namespace heterplan::test;

namespace {

constexpr const char *listed[] = {
#define HETERPLAN_OPERATOR(name, kind, weight, work, keeps) #name,
#include "ir/onnx/Operators.def"
};

TEST(Operators, AreOperatorsOfOnnxListedOnce) {
  std::set<std::string> seen;
  for (const char *name : listed) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_NE(onnx::OpSchemaRegistry::Schema(name, 17, ""), nullptr) << name;
    EXPECT_TRUE(hasFormula(name));
  }
  EXPECT_FALSE(hasFormula("Softsign"));
}

TEST(Operators, CostNothingThatIsNegativeAndTakeOperandsThatAreLeftOut) {
  Graph graph;
  graph.tensors.resize(1);
  graph.tensors[0].type = DataType::Float32;
  graph.tensors[0].shape = {Dim{1, 0}, Dim{0, 3}};
  for (const char *name : listed)
    for (int inputs = 0; inputs < 4; ++inputs)
      for (TensorId input : {TensorId(0), noTensor}) {
        GraphNode node;
        node.op = name;
        node.inputs.assign(inputs, input);
        node.outputs.assign(1, 0);
        OperatorCost cost = costOf(node, GraphFacts(graph));
        for (double figure : {cost.forwardFlops, cost.backwardFlops, cost.forwardBytes,
                              cost.backwardBytes, cost.workspaceBytes, cost.keepsBytes})
          EXPECT_TRUE(std::isfinite(figure) && figure >= 0) << name << " " << inputs;
      }
}

/// Costs of the only node of a graph of one operator on [N, 8] with all its operands trained.
OperatorCost costOfOne(const std::string &text) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] z) { y = MatMul(x, w) z = " + text + " }");
  weight(proto, "w", {8, 8});
  Graph graph = imported(proto);
  return costOf(graph.nodes.back(), GraphFacts(graph));
}

TEST(Operators, KeepWhatAutogradKeeps) {
  EXPECT_TRUE(costOfOne("Add(y, x)").keeps.empty());
  EXPECT_EQ(costOfOne("Relu(y)").keeps.size(), 1u);
  EXPECT_EQ(costOfOne("Mul(y, x)").keeps.size(), 1u); // only x: it needs no gradient itself
  EXPECT_EQ(costOfOne("Mul(y, y)").keeps.size(), 2u);
  EXPECT_TRUE(costOfOne("Neg(y)").keeps.empty());
}

TEST(Operators, BackwardCountsEachGradient) {
  EXPECT_EQ(costOfOne("Add(y, x)").backwardFlops, 8);
  EXPECT_EQ(costOfOne("Add(y, y)").backwardFlops, 16);
  EXPECT_EQ(costOfOne("Abs(x)").backwardFlops, 0);
}

TEST(Operators, MoveEachOperandOnce) {
  OperatorCost cost = costOfOne("Add(y, x)");
  EXPECT_EQ(cost.forwardBytes, 3 * 8 * 4);
  EXPECT_EQ(cost.backwardBytes, 2 * 8 * 4); // the gradient of z is read, that of y written
  EXPECT_EQ(costOfOne("Transpose <perm = [0, 1]> (y)").forwardBytes, 0);
}

} // namespace
