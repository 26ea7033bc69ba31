#include "../Models.h"

#include "ir/NodeAttributes.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// The operators that are left of `scores`, computed from queries q, keys k and values v, followed
/// by softmax and product.
std::vector<GraphNode> fused(const std::string &scores, const std::string &after = "") {
  return imported(model("g (float[N, 2, 3, 4] q, float[N, 2, 3, 4] k, float[N, 2, 3, 4] v,"
                        " float[N, 1, 3, 3] m) => (float[N, 2, 3, 4] y) {"
                        " t = Transpose <perm = [0, 1, 3, 2]> (k) " +
                        scores + " w = Softmax <axis = 3> (s) " +
                        (after.empty() ? "y = MatMul(w, v)" : after) + "}"))
      .nodes;
}

TEST(AttentionFusion, AttentionIsOneOperator) {
  const auto nodes = fused("a = MatMul(q, t) c = Constant <value = float {0.5}> () s = Mul(a, c)");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].op, "Attention");
  EXPECT_EQ(nodes[0].inputs.size(), 3U);
  EXPECT_TRUE(nodes[0].attributes.empty()); // the scale is what it is by default
}

TEST(AttentionFusion, AnotherScaleIsStated) {
  const auto nodes = fused("a = MatMul(q, t) c = Constant <value = float {4}> () s = Div(a, c)");
  ASSERT_EQ(nodes.size(), 1U);
  const auto *scale = findAttribute<double>(nodes[0], "scale");
  ASSERT_TRUE(scale);
  EXPECT_EQ(*scale, 0.25);
}

TEST(AttentionFusion, AMaskIsAnOperand) {
  const auto nodes = fused("a = MatMul(q, t) s = Add(m, a)");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].inputs.size(), 4U);
}

TEST(AttentionFusion, KeysBehindAQueryAreCausal) {
  auto masked = [](const std::string &seen) {
    return fused("a = MatMul(q, t) low = Constant <value = float {-1e9}> ()"
                 " n = Constant <value = float[1, 1, 3, 3] {" +
                 seen + "}> () b = Cast <to = 9> (n) s = Where(b, a, low)");
  };
  const auto causal = masked("1, 0, 0, 1, 1, 0, 1, 1, 1");
  ASSERT_EQ(causal.size(), 1U);
  EXPECT_EQ(causal[0].inputs.size(), 3U);
  EXPECT_EQ(integerAttribute(causal[0], "is_causal"), 1);
  // A query that sees none of the keys has equal weights for all, which no mask says.
  EXPECT_EQ(masked("1, 1, 0, 0, 0, 0, 1, 1, 1").back().op, "MatMul");
}

/// The values of a mask of 5,000 tokens are too many to be computed.
TEST(AttentionFusion, LongMasksAreCausalByTheirPositions) {
  const auto lastOf = [](const std::string &shift) {
    return imported(
               model("g (float[N, 1, 5000, 4] q, float[N, 1, 5000, 4] k, float[N, 1, 5000, 4] v) =>"
                     " (float[N, 1, 5000, 4] y) {"
                     " t = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, t)"
                     " zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()"
                     " length = Constant <value = int64 {5000}> () r = Range(zero, length, one)"
                     " axis = Constant <value_ints = [1]> () queries = Unsqueeze(r, axis)"
                     " shift = Constant <value = int64 {" +
                     shift +
                     "}> () keys = Sub(r, shift) b = LessOrEqual(keys, queries)"
                     " low = Constant <value = float {-1e9}> () s = Where(b, a, low)"
                     " w = Softmax <axis = 3> (s) y = MatMul(w, v)}"))
        .nodes.back();
  };
  EXPECT_EQ(integerAttribute(lastOf("0"), "is_causal"), 1);
  EXPECT_EQ(lastOf("1").op, "MatMul");
  EXPECT_EQ(lastOf("-1").op, "MatMul");
}

/// The older exporter takes the size of the mask from the queries, which weights compute.
TEST(AttentionFusion, TheSizeOfATrainedTensorIsNotTrained) {
  auto proto =
      model("g (float[N, 3, 4] x) => (float[N, 3, 4] y) {"
            " q = MatMul(x, w) t = Transpose <perm = [0, 2, 1]> (x) a = MatMul(q, t)"
            " all = Shape(q) second = Constant <value_ints = [1]> () n = Gather(all, second)"
            " size = Concat <axis = 0> (n, n)"
            " one = Constant <value = float[1] {1}> () ones = Expand(one, size)"
            " low = Trilu <upper = 0> (ones) zero = Constant <value = float {0}> ()"
            " b = Equal(low, zero) never = Constant <value = float {-1e9}> ()"
            " m = Where(b, never, zero) s = Add(a, m)"
            " p = Softmax <axis = 2> (s) y = MatMul(p, x)}");
  weight(proto, "w", {4, 4}, true);
  const GraphNode fused = imported(proto).nodes.back();
  EXPECT_EQ(fused.op, "Attention");
  EXPECT_EQ(integerAttribute(fused, "is_causal"), 1);
}

TEST(AttentionFusion, WhatIsUsedElsewhereStays) {
  const std::string scores = "s = MatMul(q, t)";
  EXPECT_EQ(fused(scores, "z = MatMul(w, v) e = ReduceSum <keepdims = 1> (w) y = Add(z, e)").size(),
            6U);
  EXPECT_EQ(
      fused("s = MatMul(q, t) e = ReduceSum <keepdims = 1> (s)", "z = MatMul(w, v) y = Add(z, e)")
          .size(),
      6U);
}

TEST(AttentionFusion, ALongChainOfMasksStays) {
  std::string chain = "a0 = MatMul(q, t)";
  for (int i = 0; i < 5000; ++i)
    chain += " a" + std::to_string(i + 1) + " = Add(a" + std::to_string(i) + ", m)";
  EXPECT_EQ(fused(chain + " s = Identity(a5000)").back().op, "MatMul");
}

} // namespace
