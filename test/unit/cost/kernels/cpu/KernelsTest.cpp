// Each kernel against a naive computation in double precision: its result, and its gradients by
// differences of the naive result.
#include "cost/kernels/cpu/Bench.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

using namespace heterplan;
using namespace heterplan::cpu;

namespace {
using Values = std::vector<double>;
using Reference = std::function<Values(const std::vector<Values> &)>;

struct Case {
  std::string op;
  std::vector<Dims> inputs;
  Dims output;
  Reference reference;
  std::map<std::string, Attribute> attributes;
  /// Inputs that are constants follow the others.
  std::vector<TensorData> constants;
  float shift = 0; // of the first input, which is drawn from 0.5 to 1.5
};

TensorData integers(const Dims &values) {
  TensorData data{DataType::Int64, {int64_t(values.size())}, ""};
  data.bytes.assign(reinterpret_cast<const char *>(values.data()), values.size() * 8);
  return data;
}

TensorData number(float value) {
  TensorData data{DataType::Float32, {}, std::string(4, '\0')};
  std::memcpy(data.bytes.data(), &value, 4);
  return data;
}

Shape shapeOf(const Dims &dims) {
  Shape shape;
  for (int64_t dim : dims)
    shape.push_back({0, dim});
  return shape;
}

TensorId add(Graph &graph, const Dims &dims, DataType type) {
  GraphTensor tensor;
  tensor.name = "t" + std::to_string(graph.tensors.size());
  tensor.type = type;
  tensor.shape = shapeOf(dims);
  tensor.differentiable = isFloating(type);
  graph.tensors.push_back(tensor);
  return TensorId(graph.tensors.size() - 1);
}

Graph graphOf(const Case &test) {
  Graph graph;
  GraphNode node;
  node.name = "node";
  node.op = test.op;
  node.attributes = test.attributes;
  for (const Dims &dims : test.inputs)
    node.inputs.push_back(add(graph, dims, DataType::Float32));
  for (const TensorData &data : test.constants) {
    TensorId id = add(graph, Dims(data.shape.begin(), data.shape.end()), data.type);
    graph.tensors[id].differentiable = false;
    graph.tensors[id].role = TensorRole::Constant;
    graph.tensors[id].data = data;
    node.inputs.push_back(id);
  }
  node.outputs.push_back(add(graph, test.output, DataType::Float32));
  graph.nodes.push_back(node);
  return graph;
}

Values wide(const dnnl::memory &memory) {
  std::vector<float> values = read(memory);
  return {values.begin(), values.end()};
}

void expectNear(const Values &found, const Values &wanted, const std::string &what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], 2e-4 * std::max(1.0, std::abs(wanted[i]))) << what << ' ' << i;
}

/// What reaches input `which` when `arriving` reaches the result.
Values differences(const Case &test, std::vector<Values> inputs, size_t which,
                   const Values &arriving) {
  constexpr double step = 1e-6;
  Values result;
  for (double &value : inputs[which]) {
    double kept = value;
    value = kept + step;
    Values above = test.reference(inputs);
    value = kept - step;
    Values below = test.reference(inputs);
    value = kept;
    double sum = 0;
    for (size_t i = 0; i < arriving.size(); ++i)
      sum += arriving[i] * (above[i] - below[i]) / (2 * step);
    result.push_back(sum);
  }
  return result;
}

void check(const Case &test) {
  Graph graph = graphOf(test);
  std::string why;
  std::unique_ptr<Kernel> kernel = makeKernel(callOf(graph, graph.nodes[0], 1), why);
  ASSERT_TRUE(kernel) << why;
  kernel->fill(7);
  std::vector<float> first = read(kernel->inputs[0].value);
  for (float &value : first)
    value += test.shift;
  write(kernel->inputs[0].value, first);
  std::vector<Values> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i)
    inputs.push_back(wide(kernel->inputs[i].value));
  kernel->forward();
  expectNear(wide(kernel->outputs[0].value), test.reference(inputs), test.op);
  Values arriving = wide(kernel->outputs[0].gradient);
  for (int pass = 0; pass < 2; ++pass) { // the second must not add to the first
    kernel->backward();
    for (size_t i = 0; i < test.inputs.size(); ++i)
      expectNear(wide(kernel->inputs[i].gradient), differences(test, inputs, i, arriving),
                 test.op + " gradient of input " + std::to_string(i));
  }
}

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

/// Convolution of (n, c, h, w), a padding of 1 on all sides, with bias.
Values convolve(const std::vector<Values> &in, const Dims &x, const Dims &w, const Dims &y,
                int64_t stride, int64_t group) {
  Values result;
  int64_t perGroup = y[1] / group;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j) {
          double sum = in[2][o];
          for (int64_t c = 0; c < w[1]; ++c)
            for (int64_t p = 0; p < w[2]; ++p)
              for (int64_t q = 0; q < w[3]; ++q) {
                int64_t row = i * stride + p - 1, column = j * stride + q - 1;
                int64_t channel = o / perGroup * w[1] + c;
                if (row >= 0 && row < x[2] && column >= 0 && column < x[3])
                  sum += in[0][((n * x[1] + channel) * x[2] + row) * x[3] + column] *
                         in[1][((o * w[1] + c) * w[2] + p) * w[3] + q];
              }
          result.push_back(sum);
        }
  return result;
}

Values multiply(const Values &a, const Values &b, int64_t m, int64_t k, int64_t n, bool turnA,
                bool turnB) {
  Values c;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (turnA ? a[l * m + i] : a[i * k + l]) * (turnB ? b[j * k + l] : b[l * n + j]);
      c.push_back(sum);
    }
  return c;
}

void checkConvolution(int64_t channels, int64_t stride, int64_t group) {
  Dims x{2, channels, 6, 5}, w{8, channels / group, 3, 3};
  Dims y{2, 8, (6 - 1) / stride + 1, (5 - 1) / stride + 1};
  check({"Conv",
         {x, w, {8}},
         y,
         [=](const std::vector<Values> &in) { return convolve(in, x, w, y, stride, group); },
         {{"pads", std::vector<int64_t>{1, 1, 1, 1}},
          {"strides", std::vector<int64_t>{stride, stride}},
          {"group", group}},
         {}});
}

TEST(KernelsTest, Convolution) { checkConvolution(4, 1, 1); }
TEST(KernelsTest, ConvolutionWithStride) { checkConvolution(3, 2, 1); }
TEST(KernelsTest, ConvolutionInGroups) { checkConvolution(8, 1, 8); }

TEST(KernelsTest, Gemm) {
  for (bool turnA : {false, true})
    for (bool turnB : {false, true})
      check({"Gemm",
             {turnA ? Dims{4, 3} : Dims{3, 4}, turnB ? Dims{5, 4} : Dims{4, 5}, {5}},
             {3, 5},
             [=](const std::vector<Values> &in) {
               Values c = multiply(in[0], in[1], 3, 4, 5, turnA, turnB);
               for (size_t i = 0; i < c.size(); ++i)
                 c[i] += in[2][i % 5];
               return c;
             },
             {{"transA", int64_t(turnA)}, {"transB", int64_t(turnB)}},
             {}});
}

TEST(KernelsTest, MatMul) {
  check(
      {"MatMul",
       {{2, 3, 4}, {4, 5}},
       {2, 3, 5},
       [](const std::vector<Values> &in) { return multiply(in[0], in[1], 6, 4, 5, false, false); },
       {},
       {}});
  check({"MatMul",
         {{2, 3, 4}, {2, 4, 5}},
         {2, 3, 5},
         [](const std::vector<Values> &in) {
           Values c;
           for (int b = 0; b < 2; ++b) {
             Values left(in[0].begin() + b * 12, in[0].begin() + (b + 1) * 12);
             Values right(in[1].begin() + b * 20, in[1].begin() + (b + 1) * 20);
             Values part = multiply(left, right, 3, 4, 5, false, false);
             c.insert(c.end(), part.begin(), part.end());
           }
           return c;
         },
         {},
         {}});
}

/// Windows of 2x2 with stride 2 over (1, 2, 4, 4).
Reference pool(bool maximum) {
  return [maximum](const std::vector<Values> &in) {
    Values result;
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          double most = -1e9, sum = 0;
          for (int p = 0; p < 2; ++p)
            for (int q = 0; q < 2; ++q) {
              double value = in[0][(c * 4 + 2 * i + p) * 4 + 2 * j + q];
              most = std::max(most, value);
              sum += value / 4;
            }
          result.push_back(maximum ? most : sum);
        }
    return result;
  };
}

TEST(KernelsTest, Pooling) {
  std::map<std::string, Attribute> windows = {{"kernel_shape", std::vector<int64_t>{2, 2}},
                                              {"strides", std::vector<int64_t>{2, 2}}};
  check({"MaxPool", {{1, 2, 4, 4}}, {1, 2, 2, 2}, pool(true), windows, {}});
  check({"AveragePool", {{1, 2, 4, 4}}, {1, 2, 2, 2}, pool(false), windows, {}});
  check({"GlobalAveragePool",
         {{1, 2, 2, 2}},
         {1, 2, 1, 1},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{(x[0] + x[1] + x[2] + x[3]) / 4, (x[4] + x[5] + x[6] + x[7]) / 4};
         },
         {},
         {}});
}

/// (x - mean) / sqrt(variance + 1e-5) of those of `groups` groups that `groupOf` puts together.
Values normalise(const Values &x, int groups, const std::function<int(int)> &groupOf) {
  Values mean(groups), variance(groups), count(groups), result;
  for (size_t i = 0; i < x.size(); ++i)
    mean[groupOf(int(i))] += x[i], ++count[groupOf(int(i))];
  for (size_t i = 0; i < x.size(); ++i)
    variance[groupOf(int(i))] += std::pow(x[i] - mean[groupOf(int(i))] / count[groupOf(int(i))], 2);
  for (size_t i = 0; i < x.size(); ++i) {
    int g = groupOf(int(i));
    result.push_back((x[i] - mean[g] / count[g]) / std::sqrt(variance[g] / count[g] + 1e-5));
  }
  return result;
}

TEST(KernelsTest, Normalisation) {
  check({"BatchNormalization",
         {{4, 3, 2, 2}, {3}, {3}},
         {4, 3, 2, 2},
         [](const std::vector<Values> &in) {
           Values y = normalise(in[0], 3, [](int i) { return i / 4 % 3; });
           for (size_t i = 0; i < y.size(); ++i)
             y[i] = y[i] * in[1][i / 4 % 3] + in[2][i / 4 % 3];
           return y;
         },
         {},
         {}});
  check({"LayerNormalization",
         {{4, 6}, {6}, {6}},
         {4, 6},
         [](const std::vector<Values> &in) {
           Values y = normalise(in[0], 4, [](int i) { return i / 6; });
           for (size_t i = 0; i < y.size(); ++i)
             y[i] = y[i] * in[1][i % 6] + in[2][i % 6];
           return y;
         },
         {},
         {}});
}

/// Softmax over the rows of (3, 5), or its logarithm.
Reference softmax(bool logarithm) {
  return [logarithm](const std::vector<Values> &in) {
    Values result;
    for (int row = 0; row < 3; ++row) {
      double sum = 0;
      for (int i = 0; i < 5; ++i)
        sum += std::exp(in[0][row * 5 + i]);
      for (int i = 0; i < 5; ++i) {
        double x = in[0][row * 5 + i];
        result.push_back(logarithm ? x - std::log(sum) : std::exp(x) / sum);
      }
    }
    return result;
  };
}

TEST(KernelsTest, Softmax) {
  check({"Softmax", {{3, 5}}, {3, 5}, softmax(false), {{"axis", int64_t(1)}}, {}});
  check({"LogSoftmax", {{3, 5}}, {3, 5}, softmax(true), {{"axis", int64_t(-1)}}, {}});
}

TEST(KernelsTest, FunctionsOfOneValue) {
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
  check({"Clip",
         {shape},
         shape,
         each([](double x) { return std::clamp(x, 0.75, 1.25); }),
         {},
         {number(0.75f), number(1.25f)}});
}

TEST(KernelsTest, FunctionsOfTwoValuesAreBroadcast) {
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

TEST(KernelsTest, Reductions) {
  auto sums = [](const std::vector<Values> &in) { // (2, 3, 4) over its axes 0 and 2
    Values result(3);
    for (int i = 0; i < 24; ++i)
      result[i / 4 % 3] += in[0][i];
    return result;
  };
  std::map<std::string, Attribute> axes = {{"axes", std::vector<int64_t>{0, -1}}};
  check({"ReduceMean",
         {{2, 3, 4}},
         {1, 3, 1},
         [=](const std::vector<Values> &in) {
           Values result = sums(in);
           for (double &value : result)
             value /= 8;
           return result;
         },
         axes,
         {}});
  check({"ReduceSum", {{2, 3, 4}}, {3}, sums, {}, {integers({0, 2})}});
}

TEST(KernelsTest, Movement) {
  check({"Transpose",
         {{2, 3, 4}},
         {4, 2, 3},
         [](const std::vector<Values> &in) {
           Values y;
           for (int k = 0; k < 4; ++k)
             for (int i = 0; i < 6; ++i)
               y.push_back(in[0][i * 4 + k]);
           return y;
         },
         {{"perm", std::vector<int64_t>{2, 0, 1}}},
         {}});
  check({"Concat",
         {{2, 2}, {2, 3}},
         {2, 5},
         [](const std::vector<Values> &in) {
           const Values &a = in[0], &b = in[1];
           return Values{a[0], a[1], b[0], b[1], b[2], a[2], a[3], b[3], b[4], b[5]};
         },
         {{"axis", int64_t(1)}},
         {}});
  check({"Slice",
         {{2, 5}},
         {2, 2},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{x[2], x[3], x[7], x[8]};
         },
         {},
         {integers({-3}), integers({4}), integers({1})}});
  check({"Pad",
         {{2, 2}},
         {3, 3},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{0, x[0], x[1], 0, x[2], x[3], 0, 0, 0};
         },
         {},
         {integers({0, 1, 1, 0})}});
}

TEST(KernelsTest, GatherSumsTheGradientsOfARow) {
  check({"Gather",
         {{3, 2}},
         {4, 2},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{x[2], x[3], x[4], x[5], x[2], x[3], x[4], x[5]};
         },
         {},
         {integers({1, -1, 1, 2})}});
  check({"Gather",
         {{2, 3}},
         {2, 1},
         [](const std::vector<Values> &in) {
           return Values{in[0][1], in[0][4]};
         },
         {{"axis", int64_t(1)}},
         {integers({1})}});
}

TEST(KernelsTest, SplitReachesEveryPart) {
  Graph graph = graphOf({"Split", {{2, 4}}, {2, 1}, {}, {{"axis", int64_t(1)}}, {}});
  graph.nodes[0].outputs.push_back(add(graph, {2, 3}, DataType::Float32));
  std::string why;
  auto kernel = makeKernel(callOf(graph, graph.nodes[0], 1), why);
  ASSERT_TRUE(kernel) << why;
  kernel->fill(7);
  kernel->forward();
  kernel->backward();
  Values x = wide(kernel->inputs[0].value);
  EXPECT_EQ(wide(kernel->outputs[0].value), (Values{x[0], x[4]}));
  EXPECT_EQ(wide(kernel->outputs[1].value), (Values{x[1], x[2], x[3], x[5], x[6], x[7]}));
  Values a = wide(kernel->outputs[0].gradient), b = wide(kernel->outputs[1].gradient);
  EXPECT_EQ(wide(kernel->inputs[0].gradient),
            (Values{a[0], b[0], b[1], b[2], a[1], b[3], b[4], b[5]}));
}

TEST(KernelsTest, WhereSendsGradientsToWhatWasChosen) {
  Graph graph = graphOf({"Where", {{2, 3}, {1}}, {2, 3}, {}, {}, {}});
  TensorId mask = add(graph, {2, 3}, DataType::Bool);
  graph.nodes[0].inputs.insert(graph.nodes[0].inputs.begin(), mask);
  std::string why;
  auto kernel = makeKernel(callOf(graph, graph.nodes[0], 1), why);
  ASSERT_TRUE(kernel) << why;
  kernel->fill(7);
  kernel->forward();
  kernel->backward();
  EXPECT_EQ(wide(kernel->outputs[0].value), wide(kernel->inputs[1].value));
  EXPECT_EQ(wide(kernel->inputs[1].gradient), wide(kernel->outputs[0].gradient));
  EXPECT_EQ(wide(kernel->inputs[2].gradient), Values{0});
}

TEST(KernelsTest, WhatHasNoKernelSaysSo) {
  auto reason = [](const Case &test) {
    Graph graph = graphOf(test);
    std::string why;
    EXPECT_FALSE(makeKernel(callOf(graph, graph.nodes[0], 1), why));
    return why;
  };
  EXPECT_EQ(reason({"Einsum", {{2}}, {2}, {}, {}, {}}), "there is no kernel for Einsum");
  EXPECT_EQ(reason({"Gemm", {{2, 2}, {2, 2}}, {2, 2}, {}, {{"alpha", 2.0}}, {}}),
            "there is no kernel for these settings of Gemm");
  EXPECT_EQ(reason({"Pow", {{2}, {2}}, {2}, {}, {}, {}}),
            "there is no kernel for these settings of Pow");
}

TEST(UpdateTest, FollowsItsFormula) {
  double rate = Update::rate, g = 0.5;
  Update sgd(Optimizer::Sgd, 3);
  sgd.run();
  EXPECT_NEAR(sgd.values[2], 1 - rate * g, 1e-6);
  Update momentum(Optimizer::Momentum, 3);
  momentum.run();
  momentum.run();
  EXPECT_NEAR(momentum.values[1], 1 - rate * g - rate * 1.9 * g, 1e-6);
  Update adam(Optimizer::Adam, 3);
  adam.run();
  EXPECT_NEAR(adam.values[0], 1 - rate, 1e-6); // the first step is one of the rate
}

TEST(BenchTest, TheSpreadIsThatOfTheMedian) {
  EXPECT_EQ(spreadOf({1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(spreadOf({3, 1, 2}), 0.5); // few: their whole range
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i)
    hundred.push_back(i);
  EXPECT_DOUBLE_EQ(spreadOf(hundred), 9.5 / 50.5);
}

TEST(BenchTest, ALayerIsTheSumOfItsOperatorsOrNothing) {
  Graph graph = graphOf({"Relu", {{64, 64}}, {64, 64}, {}, {}, {}});
  Layer layer;
  layer.name = "l";
  layer.signature = "s";
  layer.nodes = {"node"};
  Effort effort;
  effort.least = effort.most = 5;
  auto entry = measure(graph, layer, Samples(2), Optimizer::Sgd, "core", effort);
  ASSERT_TRUE(bool(entry));
  EXPECT_EQ(entry->signature, "s");
  EXPECT_EQ(entry->deviceType, "core");
  EXPECT_EQ(entry->repetitions, 5);
  EXPECT_GT(entry->forward, Seconds(0));
  EXPECT_GT(entry->backward, Seconds(0));
  EXPECT_EQ(entry->update, Seconds(0)); // it has no parameters
  graph.nodes[0].op = "Einsum";
  EXPECT_EQ(whyNot(graph, layer), "there is no kernel for Einsum");
  auto refused = measure(graph, layer, Samples(2), Optimizer::Sgd, "core", effort);
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(toText(refused.takeError()).find("[HP1401] layer 'l': there is no kernel for Einsum"),
            std::string::npos);
}
} // namespace
