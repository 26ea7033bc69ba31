// Functions of one and of two values.
#include "Harness.h"

#include <cmath>

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
/// A function of each value.
Reference each(double (*function)(double)) {
  return [function](const std::vector<Values> &inputs) {
    Values result;
    for (double value : inputs[0])
      result.push_back(function(value));
    return result;
  };
}

/// A function of two operands whose shapes are broadcast to `dims` of three axes.
Reference broadcast(Dims left, Dims right, Dims dims, double (*function)(double, double)) {
  auto at = [dims](const Dims &shape, const Values &values, int64_t i, int64_t j, int64_t k) {
    Dims place = {i, j, k};
    int64_t index = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      index =
          index * shape[axis] + (shape[axis] == 1 ? 0 : place[axis + dims.size() - shape.size()]);
    return values[index];
  };
  return [=](const std::vector<Values> &inputs) {
    Values result;
    for (int64_t i = 0; i < dims[0]; ++i)
      for (int64_t j = 0; j < dims[1]; ++j)
        for (int64_t k = 0; k < dims[2]; ++k)
          result.push_back(function(at(left, inputs[0], i, j, k), at(right, inputs[1], i, j, k)));
    return result;
  };
}

TEST_F(KernelTest, FunctionsOfOneValue) {
  Dims shape{3, 7};
  auto test = [&](const char *op, double (*function)(double), float shift = 0) {
    check({op, {shape}, shape, each(function), {}, {}, shift});
  };
  test(
      "Relu", [](double x) { return std::max(x, 0.0); }, -1);
  test(
      "Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -1);
  test(
      "Tanh", [](double x) { return std::tanh(x); }, -1);
  test("Sqrt", [](double x) { return std::sqrt(x); });
  test("Exp", [](double x) { return std::exp(x); });
  test("Log", [](double x) { return std::log(x); });
  test(
      "Erf", [](double x) { return std::erf(x); }, -1);
  test(
      "Gelu", [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }, -1);
  test(
      "Swish", [](double x) { return x / (1 + std::exp(-x)); }, -1);
  check({"Clip",
         {shape},
         shape,
         each([](double x) { return std::clamp(x, 0.75, 1.25); }),
         {},
         {number(0.75f), number(1.25f)}});
}

TEST_F(KernelTest, FunctionsOfTwoValuesAreBroadcast) {
  Dims result{2, 3, 4};
  std::vector<std::pair<Dims, Dims>> shapes = {
      {{2, 3, 4}, {2, 3, 4}}, {{2, 3, 4}, {4}}, {{2, 3, 4}, {1}},      {{2, 3, 4}, {3, 1}},
      {{2, 1, 4}, {3, 1}},    {{4}, {2, 3, 4}}, {{2, 1, 1}, {1, 3, 4}}};
  for (const auto &[left, right] : shapes) {
    auto test = [&](const char *op, double (*function)(double, double)) {
      check({op, {left, right}, result, broadcast(left, right, result, function), {}, {}});
    };
    test("Add", [](double a, double b) { return a + b; });
    test("Sub", [](double a, double b) { return a - b; });
    test("Mul", [](double a, double b) { return a * b; });
    test("Div", [](double a, double b) { return a / b; });
  }
  check({"Pow", {result}, result, each([](double x) { return x * x; }), {}, {number(2)}});
}

TEST_F(KernelTest, WhereSendsGradientsToWhatWasChosen) {
  Graph graph = graphOf({"Where", {{2, 3}, {1}}, {2, 3}, {}, {}, {}});
  TensorId mask = add(graph, {2, 3}, DataType::Bool);
  graph.nodes[0].inputs.insert(graph.nodes[0].inputs.begin(), mask);
  std::unique_ptr<Kernel> kernel = makeFilled(engine(), graph);
  ASSERT_TRUE(kernel);
  run(*kernel);
  EXPECT_EQ(wide(*kernel, {Place::Output, 0}), wide(*kernel, {Place::Input, 1}));
  EXPECT_EQ(wide(*kernel, {Place::Input, 1, true}), wide(*kernel, {Place::Output, 0, true}));
  EXPECT_EQ(wide(*kernel, {Place::Input, 2, true}), Values{0});
}
} // namespace
