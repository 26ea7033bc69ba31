// Each kernel against a naive computation in double precision: its result, and its gradients by
// differences of the naive result. The same cases for every device: a test program gives the
// engine.
#pragma once

#include "cost/kernels/Engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace heterplan::kernels {

/// The engine that this program tests; null, and why, where it has none. Opened once.
Engine *engineUnderTest(std::string &whyNot);

using Values = std::vector<double>;
using Reference = std::function<Values(const std::vector<Values> &)>;

struct Case {
  std::string op;
  std::vector<Dims> inputs; // an empty shape is an input that is left out
  Dims output;
  Reference reference; // the results, one after the other
  std::map<std::string, Attribute> attributes;
  /// Inputs that are constants follow the others.
  std::vector<TensorData> constants;
  float shift = 0;            // of the first input, which is drawn from 0.5 to 1.5
  std::vector<Dims> others{}; // outputs after the first; that is left out where its shape is empty
};

/// Skipped where there is no engine.
class KernelTest : public testing::Test {
protected:
  void SetUp() override;
  Engine &engine() const { return *opened; }
  void check(const Case &test);

private:
  Engine *opened = nullptr;
};

/// Constants.
TensorData integers(const Dims &values);
TensorData number(float value);

/// Adds a tensor that gets gradients if it is of floats.
TensorId add(Graph &graph, const Dims &dims, DataType type);
/// One node called "node".
Graph graphOf(const Case &test);
/// The kernel of the node of `graph`, its buffers random; a failure of the test where there is
/// none.
std::unique_ptr<Kernel> makeFilled(Engine &engine, const Graph &graph);
/// A whole forward and backward pass.
void run(Kernel &kernel);

Values wide(const Kernel &kernel, Place place);
void expectNear(const Values &found, const Values &wanted, const std::string &what);

} // namespace heterplan::kernels
