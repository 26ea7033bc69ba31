// Tests of the work and the memory of operators.
#include "../Models.h"

#include "ir/onnx/group/Operators.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// Costs of the only node of a graph of one operator on [N, 8] with all its operands trained.
OperatorCost costOfOne(const std::string &text) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] z) { y = MatMul(x, w) z = " + text + " }");
  weight(proto, "w", {8, 8});
  Graph graph = imported(proto);
  return costOf(graph.nodes.back(), GraphFacts(graph));
}

TEST(Operators, CastIfShardsSayThatTheyDo) {
  GraphNode node;
  node.op = "ShardGather";
  node.attributes["half"] = int64_t(1);
  EXPECT_EQ(autocastRule(node), AutocastRule::Widest) << "an operator of a model";
  node.domain = "heterplan";
  EXPECT_EQ(autocastRule(node), AutocastRule::Half);
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

/// Forward operations of the only node of the graph `text`, with weights that lie in no file.
double forwardOf(const std::string &text, std::map<std::string, std::vector<int64_t>> weights = {},
                 int opset = 23) {
  auto proto = model(text, opset);
  for (const auto &[name, dims] : weights)
    weight(proto, name, dims);
  Graph graph = imported(proto);
  return graph.nodes.empty() ? -1 : costOf(graph.nodes.back(), GraphFacts(graph)).forwardFlops;
}

TEST(Operators, AttentionIsTwoProductsAndASoftmax) {
  double expected = 2 * 4 * 16 * 16 * 8 * 2 + 5 * 4 * 16 * 16;
  EXPECT_EQ(forwardOf("g (float[N, 4, 16, 8] q, float[N, 4, 16, 8] k, float[N, 4, 16, 8] v)"
                      " => (float[N, 4, 16, 8] y) { y = Attention(q, k, v) }"),
            expected);
  EXPECT_EQ(forwardOf("g (float[N, 16, 32] q, float[N, 16, 16] k, float[N, 16, 16] v)"
                      " => (float[N, 16, 32] y) {"
                      " y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v) }"),
            expected); // groups share keys, but each head has its scores
  EXPECT_EQ(forwardOf("g (float[N, 4, 16, 8] q, float[N, 4, 16, 8] k, float[N, 4, 16, 8] v)"
                      " => (float[N, 4, 16, 8] y) { y = Attention <is_causal = 1> (q, k, v) }"),
            expected * 17 / 32); // 1, 2, ... 16 keys for the queries
}

/// The cost of the last node, an Attention with settings `how` of operands with gradients.
OperatorCost attentionCost(const std::string &how, const std::string &mask = "") {
  const std::string operand = mask.empty() ? "" : ", mask", input = mask.empty() ? "" : ", " + mask;
  auto proto = model("g (float[N, 4, 16, 8] x" + input +
                         ") => (float[N, 4, 16, 8] y) { p = MatMul(x, w) y = Attention <" + how +
                         "> (p, p, p" + operand + ") }",
                     23);
  weight(proto, "w", {8, 8});
  Graph graph = imported(proto);
  return costOf(graph.nodes.back(), GraphFacts(graph));
}

TEST(Operators, FusedAttentionKeepsASumForEachQueryAndComputesScoresAgain) {
  const OperatorCost fused = attentionCost("is_causal = 0");
  EXPECT_EQ(fused.keepsBytes, 4 * 16 * 4);
  EXPECT_EQ(fused.backwardFlops, 2.5 * fused.forwardFlops);
  EXPECT_EQ(attentionCost("is_causal = 0", "float[N, 1, 16, 16] mask").keepsBytes, 4 * 16 * 4);
}

TEST(Operators, AttentionWithoutAKernelKeepsScores) {
  const double scores = 4 * 16 * 16 * 4;
  const OperatorCost capped = attentionCost("softcap = 5.0");
  EXPECT_EQ(capped.keepsBytes, 2 * scores);
  EXPECT_EQ(capped.backwardFlops, 2 * capped.forwardFlops);
  EXPECT_EQ(attentionCost("is_causal = 0", "bool[N, 1, 16, 16] mask").keepsBytes, 2 * scores);
}

TEST(Operators, EinsumMultipliesEachCombination) {
  EXPECT_EQ(forwardOf("g (float[N, 3, 4] x) => (float[N, 3, 5] y) {"
                      " y = Einsum <equation = \"bij,jk->bik\"> (x, w) }",
                      {{"w", {4, 5}}}),
            2 * 3 * 4 * 5);
  EXPECT_EQ(forwardOf("g (float[N, 3, 4] x) => (float[N, 3] y) {"
                      " y = Einsum <equation = \"bij->bi\"> (x) }"),
            3 * 4);
}

TEST(Operators, TransformsAreFast) {
  EXPECT_EQ(forwardOf("g (float[N, 64, 1] x) => (float[N, 64, 2] y) {"
                      " a = Constant <value_int = 1> () y = DFT(x, , a) }"),
            5 * 64 * 6);
}

TEST(Operators, RecurrentStepsMultiplyBothWeights) {
  EXPECT_EQ(forwardOf("g (float[7, N, 3] x) => (float[7, 1, N, 5] y) {"
                      " y = LSTM <hidden_size = 5> (x, w, r) }",
                      {{"w", {1, 20, 3}}, {"r", {1, 20, 5}}}),
            2 * 7 * (20 * 3 + 20 * 5));
}

TEST(Operators, QuantizedResultsCarryNoGradient) {
  auto proto = model("g (float[N, 8] x) => (uint8[N, 8] z) {"
                     " y = MatMul(x, w) z = QuantizeLinear(y, s) }");
  weight(proto, "w", {8, 8});
  weight(proto, "s", {}, true);
  Graph graph = imported(proto);
  EXPECT_TRUE(tensor(graph, "y").differentiable);
  EXPECT_FALSE(tensor(graph, "z").differentiable);
  EXPECT_FALSE(passesGradients(graph.nodes.back()));
}

TEST(Operators, MoveEachOperandOnce) {
  OperatorCost cost = costOfOne("Add(y, x)");
  EXPECT_EQ(cost.forwardBytes, 3 * 8 * 4);
  EXPECT_EQ(cost.backwardBytes, 2 * 8 * 4); // the gradient of z is read, that of y written
  EXPECT_EQ(costOfOne("Transpose <perm = [0, 1]> (y)").forwardBytes, 0);
}

} // namespace
