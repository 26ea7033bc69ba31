// Models whose samples depend on each other are not planned by halves.
#include "../Models.h"

#include "ir/onnx/batch/MixedSamples.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// The diagnostic of a model with nodes `text` between x [N, 4] and z; "" where it is accepted.
std::string refusal(const std::string &text, const std::string &result = "[N, 4]", int opset = 13) {
  auto proto = model("g (float[N, 4] x) => (float" + result + " z) {" + text + "}", opset);
  weight(proto, "w", {4, 4});
  return toText(checkSamplesApart(imported(proto), "m.onnx"));
}

TEST(MixedSamples, AreRefusedWithTheNameOfTheOperator) {
  std::string text = refusal("y = MatMul(x, w) z = Softmax<axis = 0>(y)");
  EXPECT_NE(text.find("[HP1802] operator Softmax combines elements"), std::string::npos) << text;
  EXPECT_NE(text.find("--batch-dim none"), std::string::npos) << text;
}

TEST(MixedSamples, OfManyKindsAreRefused) {
  EXPECT_NE(refusal("y = MatMul(x, w) m = ReduceMean<axes = [0]>(y) z = Sub(y, m)"), "");
  EXPECT_NE(refusal("y = MatMul(x, w) t = Transpose(y) s = MatMul(y, t) z = MatMul(s, y)"), "");
  EXPECT_NE(
      refusal("y = MatMul(x, w)"
              " a = Constant<value_ints = [0]>() b = Constant<value_ints = [-1]>()"
              " e = Constant<value_ints = [-9223372036854775807]>() z = Slice(y, b, e, a, b)"),
      "");
}

TEST(MixedSamples, WhatTakesEachSampleByItselfIsAccepted) {
  EXPECT_EQ(refusal("y = MatMul(x, w) z = Softmax<axis = 1>(y)"), "");
  EXPECT_EQ(
      refusal("y = MatMul(x, w)"
              " a = Constant<value_ints = [1]>() b = Constant<value_ints = [-1]>()"
              " e = Constant<value_ints = [-9223372036854775807]>() z = Slice(y, b, e, a, b)"),
      "");
}

/// Each sample picks an element of x·w by its largest input; samples are `step` elements apart.
std::string picking(const std::string &step, const std::string &offset) {
  return refusal("y = MatMul(x, w) r = Constant<value_ints = [-1]>() f = Reshape(y, r)"
                 " s = Shape(x) o = Constant<value_int = 0>() n = Gather(s, o)"
                 " i = Constant<value_int = 1>() rows = Range(o, n, i)"
                 " d = Constant<value_int = " +
                     step + ">() base = Mul(rows, d) k = ArgMax<axis = 1, keepdims = 0>(x) a = " +
                     offset + " z = Gather(f, a)",
                 "[N]");
}

TEST(MixedSamples, RowsThatASamplePicksOfItsOwnAreAccepted) {
  EXPECT_EQ(picking("4", "Add(base, k)"), "");
  EXPECT_EQ(picking("4", "Add(k, base)"), "");
  EXPECT_EQ(picking("4", "Add(base, i)"), "");
  EXPECT_NE(picking("3", "Add(base, k)"), ""); // rows of other samples
  EXPECT_NE(picking("1", "Add(base, k)"), "");
  EXPECT_NE(picking("4", "Add(k, k)"), "");
}

} // namespace
