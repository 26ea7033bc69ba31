#include "../Models.h"

#include "ir/ModuleWeights.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// Constants b0, b1, ... at multiples of 5, the size of a gate, and the axis.
const char *const bounds = " b0 = Constant <value = int64[1] {0}> ()"
                           " b1 = Constant <value = int64[1] {5}> ()"
                           " b2 = Constant <value = int64[1] {10}> ()"
                           " b3 = Constant <value = int64[1] {15}> ()"
                           " b4 = Constant <value = int64[1] {20}> ()";

/// `name` with its gates in `order` and an axis in front, as exporters write it.
std::string reordered(const std::string &name, const std::string &result,
                      const std::vector<int> &order) {
  std::string nodes, parts;
  int count = 0;
  for (int gate : order) {
    const std::string part = name + "_" + std::to_string(count++);
    nodes += " " + part + " = Slice(" + name + ", b" + std::to_string(gate) + ", b" +
             std::to_string(gate + 1) + ", b0)";
    parts += (parts.empty() ? "" : ", ") + part;
  }
  return nodes + " " + name + "_o = Concat <axis = 0> (" + parts + ") " + result + " = Unsqueeze(" +
         name + "_o, b0)";
}

void addWeights(onnx::ModelProto &proto, int gates, const std::string &suffix = "") {
  weight(proto, "w" + suffix, {5 * gates, 3});
  weight(proto, "r" + suffix, {5 * gates, 5});
  weight(proto, "b" + suffix, {5 * gates});
  weight(proto, "c" + suffix, {5 * gates});
}

std::string oneDirection(const std::string &op, const std::vector<int> &order,
                         const std::string &attributes = "hidden_size = 5") {
  return "g (float[7, N, 3] x) => (float[] y) {" + std::string(bounds) +
         reordered("w", "W", order) + reordered("r", "R", order) + reordered("b", "B1", order) +
         reordered("c", "B2", order) + " B = Concat <axis = 1> (B1, B2) y = " + op + " <" +
         attributes + "> (x, W, R, B) }";
}

/// The names of the parameters that the only recurrent node takes; "" where it has ONNX's weights.
std::string taken(onnx::ModelProto proto) {
  Graph graph = imported(proto);
  std::string result;
  for (const GraphNode &node : graph.nodes)
    for (TensorId id : moduleWeights(node))
      result += (result.empty() ? "" : " ") + graph.tensors[id].name;
  if (!result.empty()) {
    EXPECT_EQ(graph.nodes.size(), 1u);
  }
  return result;
}

std::string takenBy(const std::string &op, const std::vector<int> &order,
                    const std::string &attributes = "hidden_size = 5") {
  onnx::ModelProto proto = model(oneDirection(op, order, attributes));
  addWeights(proto, static_cast<int>(order.size()));
  return taken(proto);
}

TEST(RecurrentWeights, TakesTheParametersWhoseGatesAnExporterReorders) {
  EXPECT_EQ(takenBy("LSTM", {0, 3, 1, 2}), "w r b c");
  EXPECT_EQ(takenBy("GRU", {1, 0, 2}, "hidden_size = 5, linear_before_reset = 1"), "w r b c");
  EXPECT_EQ(takenBy("RNN", {0}), "w r b c");
}

TEST(RecurrentWeights, LeavesOtherOrdersOfGates) {
  EXPECT_EQ(takenBy("LSTM", {0, 1, 2, 3}), "");
  EXPECT_EQ(takenBy("LSTM", {0, 0, 1, 2}), "");
  EXPECT_EQ(takenBy("GRU", {0, 1, 2}, "hidden_size = 5, linear_before_reset = 1"), "");
}

TEST(RecurrentWeights, LeavesNodesThatPyTorchHasNoKernelFor) {
  EXPECT_EQ(takenBy("GRU", {1, 0, 2}), ""); // resets before the product
  EXPECT_EQ(takenBy("LSTM", {0, 3, 1, 2}, "hidden_size = 5, clip = 2.0"), "");
  EXPECT_EQ(takenBy("LSTM", {0, 3, 1, 2}, "hidden_size = 5, input_forget = 1"), "");
  EXPECT_EQ(takenBy("LSTM", {0, 3, 1, 2},
                    "hidden_size = 5, activations = [\"Relu\", \"Tanh\", \"Tanh\"]"),
            "");
}

TEST(RecurrentWeights, TakesTheParametersOfBothDirections) {
  std::string nodes;
  for (const char *name : {"w", "r", "b", "c"})
    for (const char *suffix : {"", "_back"})
      nodes +=
          reordered(std::string(name) + suffix, std::string(name) + suffix + "_u", {0, 3, 1, 2});
  onnx::ModelProto proto =
      model("g (float[7, N, 3] x) => (float[] y) {" + std::string(bounds) + nodes +
            " W = Concat <axis = 0> (w_u, w_back_u) R = Concat <axis = 0> (r_u, r_back_u)"
            " B1 = Concat <axis = 1> (b_u, c_u) B2 = Concat <axis = 1> (b_back_u, c_back_u)"
            " B = Concat <axis = 0> (B1, B2)"
            " y = LSTM <hidden_size = 5, direction = \"bidirectional\"> (x, W, R, B) }");
  addWeights(proto, 4);
  addWeights(proto, 4, "_back");
  EXPECT_EQ(taken(proto), "w r b c w_back r_back b_back c_back");
}

TEST(RecurrentWeights, CountsTheSameWorkAsWithReorderedWeights) {
  onnx::ModelProto own = model(oneDirection("LSTM", {0, 3, 1, 2}));
  addWeights(own, 4);
  onnx::ModelProto folded = model("g (float[7, N, 3] x) => (float[] y) {"
                                  " y = LSTM <hidden_size = 5> (x, W, R, B) }");
  weight(folded, "W", {1, 20, 3});
  weight(folded, "R", {1, 20, 5});
  weight(folded, "B", {1, 40});
  LayerGraph first = grouped(imported(own)), second = grouped(imported(folded));
  ASSERT_EQ(first.layers.size(), 1u);
  ASSERT_EQ(second.layers.size(), 1u);
  const Layer &a = first.layers[0], &b = second.layers[0];
  EXPECT_EQ(a.forwardFlops, b.forwardFlops);
  EXPECT_EQ(a.backwardFlops, b.backwardFlops);
  EXPECT_EQ(a.forwardBytes, b.forwardBytes);
  EXPECT_EQ(a.backwardBytes, b.backwardBytes);
  EXPECT_EQ(a.activationBytes, b.activationBytes);
  EXPECT_EQ(a.workspaceBytes, b.workspaceBytes);
  EXPECT_EQ(a.parameterBytes, b.parameterBytes);
}

} // namespace
