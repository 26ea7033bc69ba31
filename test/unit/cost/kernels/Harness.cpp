#include "Harness.h"

#include <cmath>
#include <cstring>

namespace heterplan::kernels {

void KernelTest::SetUp() {
  std::string why;
  opened = engineUnderTest(why);
  if (!opened)
    GTEST_SKIP() << why;
}

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

namespace {
Shape shapeOf(const Dims &dims) {
  Shape shape;
  for (int64_t dim : dims)
    shape.push_back({0, dim});
  return shape;
}

/// The gradient of input `which` when `arriving` is that of the result.
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

} // namespace

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
    node.inputs.push_back(dims.empty() ? noTensor : add(graph, dims, DataType::Float32));
  for (const TensorData &data : test.constants) {
    TensorId id = add(graph, Dims(data.shape.begin(), data.shape.end()), data.type);
    graph.tensors[id].differentiable = false;
    graph.tensors[id].role = TensorRole::Constant;
    graph.tensors[id].data = data;
    node.inputs.push_back(id);
  }
  node.outputs.push_back(test.output.empty() ? noTensor
                                             : add(graph, test.output, DataType::Float32));
  for (const Dims &dims : test.others)
    node.outputs.push_back(add(graph, dims, DataType::Float32));
  graph.nodes.push_back(node);
  return graph;
}

std::unique_ptr<Kernel> makeFilled(Engine &engine, const Graph &graph) {
  std::string why;
  std::unique_ptr<Kernel> kernel = engine.make(callOf(graph, graph.nodes[0], 1), why);
  EXPECT_TRUE(kernel) << why;
  if (kernel)
    kernel->fill(7);
  return kernel;
}

void run(Kernel &kernel) {
  kernel.forward();
  kernel.backward();
}

Values wide(const Kernel &kernel, Place place) {
  std::vector<float> values = kernel.read(place);
  return {values.begin(), values.end()};
}

void expectNear(const Values &found, const Values &wanted, const std::string &what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], 2e-4 * std::max(1.0, std::abs(wanted[i]))) << what << ' ' << i;
}

/// Values or gradients of all outputs, one after the other.
static Values outputsOf(const Case &test, const Kernel &kernel, bool gradient) {
  Values all;
  for (size_t i = 0; i <= test.others.size(); ++i) {
    Values one = wide(kernel, {Place::Output, i, gradient});
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void KernelTest::check(const Case &test) {
  Graph graph = graphOf(test);
  std::unique_ptr<Kernel> kernel = makeFilled(engine(), graph);
  ASSERT_TRUE(kernel);
  std::vector<float> first = kernel->read({Place::Input, 0});
  for (float &value : first)
    value += test.shift;
  kernel->write({Place::Input, 0}, first);
  std::vector<Values> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i)
    inputs.push_back(wide(*kernel, {Place::Input, i}));
  kernel->forward();
  expectNear(outputsOf(test, *kernel, false), test.reference(inputs), test.op);
  Values arriving = outputsOf(test, *kernel, true);
  for (int pass = 0; pass < 2; ++pass) { // the second must not add to the first
    kernel->backward();
    for (size_t i = 0; i < test.inputs.size(); ++i)
      expectNear(wide(*kernel, {Place::Input, i, true}), differences(test, inputs, i, arriving),
                 test.op + " gradient of input " + std::to_string(i));
  }
  EXPECT_EQ(engine().takeFailure(), "");
}

} // namespace heterplan::kernels
