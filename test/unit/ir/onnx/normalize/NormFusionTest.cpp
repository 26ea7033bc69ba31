#include "../Models.h"

#include "ir/NodeAttributes.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

struct Written {
  std::vector<int64_t> scale{4};
  std::string square = "s = Pow(x, two)";
  std::string axes = "[-1]";
  std::string root = "r = Sqrt(e) i = Reciprocal(r)";
  std::string result = "n = Mul(x, i) y = Mul(scale, n)";
  std::string data = "x = Identity(z)";
  std::string type = "float"; // of z and y
};

/// The operators that are left of a normalisation that an exporter has written so.
std::vector<GraphNode> fused(const Written &of) {
  auto proto = model("g (" + of.type + "[N, 3, 4] z) => (" + of.type +
                     "[N, 3, 4] y) {"
                     " two = Constant <value = float {2}> ()"
                     " one = Constant <value = float {1}> ()"
                     " inverse = Constant <value = float {-0.5}> ()"
                     " small = Constant <value = float {0.25}> () " +
                     of.data + " " + of.square + " m = ReduceMean <axes = " + of.axes +
                     ", keepdims = 1> (s) e = Add(m, small) " + of.root + " " + of.result + "}");
  weight(proto, "scale", of.scale);
  return imported(proto).nodes;
}

void expectOne(const Written &of, int64_t axis = -1) {
  const auto nodes = fused(of);
  ASSERT_EQ(nodes.size(), 1U) << of.square << of.root << of.result;
  EXPECT_EQ(nodes[0].op, "RMSNormalization");
  EXPECT_EQ(nodes[0].inputs.size(), 2U);
  EXPECT_EQ(integerAttribute(nodes[0], "axis"), axis);
  const auto *epsilon = findAttribute<double>(nodes[0], "epsilon");
  ASSERT_TRUE(epsilon);
  EXPECT_EQ(*epsilon, 0.25);
}

void expectNone(const Written &of) {
  for (const GraphNode &node : fused(of))
    EXPECT_NE(node.op, "RMSNormalization") << of.square << of.axes << of.root << of.result;
}

TEST(NormFusion, NormalisationIsOneOperator) {
  expectOne({});
  expectOne({.square = "s = Mul(x, x)"});
  expectOne({.root = "i = Pow(e, inverse)"});
  expectOne({.root = "r = Sqrt(e) i = Div(one, r)"});
  expectOne({.root = "r = Sqrt(e)", .result = "n = Div(x, r) y = Mul(n, scale)"});
  expectOne({.scale = {3, 4}, .axes = "[2, 1]"}, -2);
}

TEST(NormFusion, CastsBelongToTheOperator) {
  const std::string narrow = "w = Mul(x, i) n = Cast <to = 10> (w) ";
  const std::string scaled = "k = Cast <to = 10> (scale) y = Mul(k, n)";
  const Written half{.result = narrow + scaled, .data = "x = Cast <to = 1> (z)", .type = "float16"};
  const auto nodes = fused(half);
  ASSERT_EQ(nodes.size(), 2U); // with the cast of the scale
  EXPECT_EQ(nodes[1].op, "RMSNormalization");
  EXPECT_EQ(nodes[1].inputs[1], nodes[0].outputs[0]);
}

TEST(NormFusion, AnotherFormulaStays) {
  expectNone({.square = "s = Pow(x, small)"});
  expectNone({.square = "s = Mul(x, two)"});
  expectNone({.axes = "[1]"});                         // not the last one
  expectNone({.axes = "[1, 2]"});                      // of which the scale has one only
  expectNone({.scale = {1, 4}});                       // another rank
  expectNone({.root = "i = Sqrt(e)"});                 // no inverse
  expectNone({.root = "r = Sqrt(e) i = Div(two, r)"}); // twice as much
  expectNone({.result = "n = Add(x, i) y = Mul(scale, n)"});
  expectNone({.result = "t = Neg(x) n = Mul(t, i) y = Mul(scale, n)"}); // of another tensor
}

TEST(NormFusion, LayerNormalisationStays) {
  expectNone({.data = "c = ReduceMean <axes = [-1], keepdims = 1> (z) x = Sub(z, c)"});
  const auto nodes = fused({.data = "c = ReduceMean <axes = [1], keepdims = 1> (z) x = Sub(c, z)"});
  EXPECT_EQ(nodes.back().op, "RMSNormalization"); // of something else
}

TEST(NormFusion, WhatIsUsedElsewhereStays) {
  expectNone({.result = "n = Mul(x, i) k = Mul(scale, n) y = Add(k, n)"});
  expectNone({.result = "n = Mul(x, i) k = Mul(scale, n) y = Add(k, i)"});
  expectNone({.result = "n = Mul(x, i) k = Mul(scale, n) y = Add(k, s)"});
}

} // namespace
