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

/// Nodes that make the number n of samples, the constants 0, 1, 4 and -1, f = all elements of x·w
/// in one axis, and the row of the largest input of each sample.
const std::string parts =
    "y = MatMul(x, w) r = Constant<value_ints = [-1]>() f = Reshape(y, r)"
    " s = Shape(x) o = Constant<value_int = 0>() n = Gather(s, o) i = Constant<value_int = 1>()"
    " d = Constant<value_int = 4>() k = ArgMax<axis = 1, keepdims = 0>(x) l = Range(o, n, i) ";

/// Each sample picks an element of x·w by its largest input; samples are `step` elements apart.
std::string picking(const std::string &step, const std::string &offset) {
  return refusal(parts + "q = Constant<value_int = " + step + ">() base = Mul(l, q) a = " + offset +
                     " z = Gather(f, a)",
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

/// Elements of f at `rows`.
std::string gathering(const std::string &rows, const std::string &result = "[N]") {
  return refusal(parts + "a = " + rows + " z = Gather(f, a)", result);
}

TEST(MixedSamples, RowsOfMergedSamplesAreOnlyTakenByTheSampleThatHasThem) {
  EXPECT_NE(gathering("Identity(l)"), ""); // the first rows of all: samples 0 to N / 4
  EXPECT_EQ(gathering("Mul(l, d)"), "");   // the first row of each sample
  EXPECT_EQ(gathering("Mul(d, l)"), "");
  EXPECT_NE(gathering("Mul(l, l)"), "");
  EXPECT_NE(gathering("Sub(n, l)"), "");
  EXPECT_NE(gathering("Add(l, l)"), "");
  EXPECT_EQ(refusal(parts + "m = Mul(n, d) a = Range(o, m, d) z = Gather(f, a)", "[N]"), "");
  EXPECT_EQ(refusal(parts + "m = Mul(n, d) a = Range(o, m, i) z = Gather(f, a)", "[M]"), "");
}

/// Rows of y = x·w at `rows`.
std::string ofSamples(const std::string &rows) {
  return refusal(parts + rows + " z = Gather(y, a)");
}

TEST(MixedSamples, RowsOfOtherSamplesAreRefused) {
  EXPECT_EQ(ofSamples("a = Identity(l)"), "");
  for (const char *rows : {"b = Sub(n, l) a = Sub(b, i)", "b = Add(l, i) a = Mod(b, n)",
                           "a = Mod(l, d)", "a = Div(l, d)"})
    EXPECT_NE(ofSamples(rows).find("operator Gather picks rows"), std::string::npos) << rows;
}

/// The element of y = x·w at the coordinates (a, b) of each sample.
std::string atPoints(const std::string &coordinates) {
  return refusal(parts + coordinates +
                     " u = Constant<value_ints = [-1]>() v = Unsqueeze(a, u) t = Unsqueeze(b, u)"
                     " p = Concat<axis = -1>(v, t) z = GatherND(y, p)",
                 "[N]");
}

TEST(MixedSamples, PointsOfASampleAreItsOwn) {
  EXPECT_EQ(atPoints("a = Identity(l) b = Identity(k)"), "");
  EXPECT_NE(atPoints("a = Identity(k) b = Identity(k)"), "");
  EXPECT_NE(atPoints("a = Identity(l) b = Identity(l)"), ""); // the diagonal
  EXPECT_NE(atPoints("a = Mul(l, d) b = Identity(k)"), "");
  EXPECT_NE(atPoints("a = Add(k, l) b = Identity(k)"), "");
}

TEST(MixedSamples, NumbersOfSamplesAreNoData) {
  const std::string numbered =
      parts + "u = Constant<value_ints = [-1]>() c = Unsqueeze(l, u) e = Cast<to = 1>(c) ";
  EXPECT_NE(refusal(numbered + "z = Add(y, e)").find("computes with the number of a sample"),
            std::string::npos);
  EXPECT_NE(refusal(numbered + "b = Constant<value_int = 2>() h = Less(c, b) z = Where(h, y, x)"),
            "");
  EXPECT_NE(refusal(numbered + "j = Add(c, o) z = GatherElements<axis = 1>(y, j)", "[N, 1]"), "");
  // The sums of ones count, too.
  EXPECT_NE(refusal(parts + "u = Constant<value_ints = [-1]>() b = Reshape(n, u)"
                            " c = ConstantOfShape(b) g = CumSum(c, o) h = Unsqueeze(g, u)"
                            " z = Add(y, h)"),
            "");
}

/// z = x·w where x is [N, 3, 4], behind `nodes` that make the result of its transpose.
std::string transposed(const std::string &nodes, const std::string &result) {
  auto proto = model("g (float[N, 3, 4] x) => (float" + result +
                         " z) { y = MatMul(x, w) t = "
                         "Transpose<perm = [1, 0, 2]>(y) " +
                         nodes + "}",
                     13);
  weight(proto, "w", {4, 4});
  return toText(checkSamplesApart(imported(proto), "m.onnx"));
}

TEST(MixedSamples, ReshapesThatMakeRowsOfSeveralSamplesAreRefused) {
  for (const char *sizes : {"[-1, 12]", "[-1, 3, 4]", "[-1, 4, 3]"}) {
    std::string text =
        transposed("s = Constant<value_ints = " + std::string(sizes) + "> () z = Reshape(t, s)",
                   llvm::StringRef(sizes).count(',') == 2 ? "[N, a, b]" : "[N, 12]");
    EXPECT_NE(text.find("operator Reshape tears samples apart"), std::string::npos)
        << sizes << text;
  }
  EXPECT_EQ(transposed("s = Constant<value_ints = [3, -1, 2, 2]> () r = Reshape(t, s)"
                       " z = Transpose<perm = [-3, 0, 2, -1]>(r)",
                       "[N, 3, 2, 2]"),
            "");
}

TEST(MixedSamples, PaddingThatShiftsSamplesIsRefused) {
  auto padded = [](const std::string &pads) {
    return refusal("y = MatMul(x, w) p = Constant<value_ints = " + pads + "> () z = Pad(y, p)");
  };
  EXPECT_NE(padded("[1, 0, -1, 0]"), "");
  EXPECT_EQ(padded("[0, 1, 0, -1]"), "");
  EXPECT_NE(refusal("y = MatMul(x, w) p = Constant<value_ints = [1, -1]> ()"
                    " a = Constant<value_ints = [-2]> () z = Pad(y, p, , a)",
                    "[N, 4]", 18),
            "");
}

} // namespace
