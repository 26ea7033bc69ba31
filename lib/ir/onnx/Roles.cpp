#include "ir/onnx/Roles.h"

#include "ir/Bodies.h"
#include "ir/onnx/Operators.h"

#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

/// Operators that hand on values: an initializer is trained if what comes out is.
const StringSet<> &handingOn() {
  static const StringSet<> ops = {"Identity",  "Reshape",   "Flatten", "Squeeze",
                                  "Unsqueeze", "Transpose", "Cast",    "Slice",
                                  "Split",     "Concat",    "Expand",  "Tile"};
  return ops;
}

/// Operators whose floating operands beyond the data are settings, not weights.
const StringSet<> &settingsOnly() {
  static const StringSet<> ops = {"Shape",
                                  "Size",
                                  "Where",
                                  "Clip",
                                  "Pow",
                                  "Pad",
                                  "Resize",
                                  "Upsample",
                                  "Range",
                                  "OneHot",
                                  "Dropout",
                                  "Equal",
                                  "Less",
                                  "LessOrEqual",
                                  "Greater",
                                  "Min",
                                  "GreaterOrEqual",
                                  "Max",
                                  "Mod",
                                  "QuantizeLinear",
                                  "DequantizeLinear",
                                  "NonMaxSuppression",
                                  "RoiAlign",
                                  "RotaryEmbedding",
                                  "GroupQueryAttention",
                                  "GridSample",
                                  "STFT",
                                  "QLinearConv",
                                  "QLinearMatMul",
                                  "MatMulNBits",
                                  "SoftmaxCrossEntropyLoss",
                                  "NegativeLogLikelihoodLoss",
                                  "IsInf",
                                  "IsNaN"};
  return ops;
}

const StringSet<> &elementwise() {
  static const StringSet<> ops = {"Add", "Sub", "Mul", "Div", "Sum", "Mean"};
  return ops;
}

/// One element; results of nodes have no shape yet.
bool isSingle(const GraphTensor &tensor) {
  if (tensor.role == TensorRole::Activation)
    return false;
  for (const Dim &dim : tensor.shape)
    if (dim.fixed != 1)
      return false;
  return true;
}

/// Zeros and large negative numbers only, with at least one of the latter.
bool isAdditiveMask(const GraphTensor &tensor) {
  if (!tensor.data || tensor.data->type != DataType::Float32)
    return false;
  bool negative = false;
  for (size_t at = 0; at + sizeof(float) <= tensor.data->bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, tensor.data->bytes.data() + at, sizeof value);
    if (value != 0 && !(value <= -1e4f))
      return false;
    negative = negative || value != 0;
  }
  return negative;
}

class RoleFinder {
public:
  explicit RoleFinder(const ModelFile &file)
      : file(file), graph(file.graph), trained(graph.tensors.size()), state(graph.tensors.size()),
        fromProduct(graph.tensors.size()) {}

  std::vector<TensorRole> run() {
    eachNode(graph.nodes, [&](const GraphNode &node) {
      if (node.op == "MatMul" || node.op == "Gemm" || node.op == "Conv")
        for (TensorId id : node.outputs)
          if (id != noTensor)
            fromProduct[id] = true;
    });
    visitAll(graph.nodes);
    std::vector<TensorRole> roles(graph.tensors.size());
    for (size_t id = 0; id < roles.size(); ++id)
      roles[id] = roleOf(id);
    return roles;
  }

private:
  const ModelFile &file;
  const Graph &graph;
  std::vector<bool> trained, state, fromProduct;

  void visitAll(const std::vector<GraphNode> &nodes) {
    for (size_t i = nodes.size(); i-- > 0;)
      nodes[i].bodies.empty() ? visit(nodes[i]) : visitBodies(nodes[i]);
  }

  /// A value that a body reads is trained if it is used so in the body; what a loop begins with is
  /// state, not a weight.
  void visitBodies(const GraphNode &node) {
    for (const GraphBody &body : node.bodies) {
      BodyFlow flow = flowOf(node, body);
      for (auto [inner, outer] : flow.out)
        trained[inner] = trained[inner] || trained[outer];
      visitAll(body.nodes);
      for (auto [outer, inner] : flow.in) {
        bool carried = false;
        for (auto [output, input] : flow.carried)
          carried = carried || input == inner;
        trained[outer] = trained[outer] || (trained[inner] && !carried);
      }
    }
  }

  void visit(const GraphNode &node) {
    bool result = false;
    for (TensorId id : node.outputs)
      result = result || (id != noTensor && trained[id]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId id = node.inputs[i];
      if (id == noTensor)
        continue;
      if (node.op == "BatchNormalization" && i >= 3)
        state[id] = true;
      else if (handingOn().count(node.op) ? result && !isSingle(graph.tensors[id])
                                          : trains(node, id))
        trained[id] = true;
    }
  }

  /// Whether operand `id` of `node` is a weight, were it an initializer.
  bool trains(const GraphNode &node, TensorId id) const {
    if (settingsOnly().count(node.op))
      return false;
    if (!elementwise().count(node.op) || !isSingle(graph.tensors[id]))
      return true;
    return node.op == "Add" && graph.tensors[id].shape.size() == 1 && addsToProduct(node);
  }

  bool addsToProduct(const GraphNode &node) const {
    for (TensorId id : node.inputs)
      if (id != noTensor && fromProduct[id])
        return true;
    return false;
  }

  TensorRole roleOf(size_t id) const {
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role != TensorRole::Constant || !isFloating(tensor.type) || file.literal[id])
      return tensor.role;
    if (state[id])
      return TensorRole::Buffer;
    return trained[id] && !isAdditiveMask(tensor) ? TensorRole::Parameter : TensorRole::Constant;
  }
};

} // namespace

std::vector<TensorRole> decideRoles(const ModelFile &file) { return RoleFinder(file).run(); }

namespace {
void markDifferentiable(Graph &graph, const std::vector<GraphNode> &nodes);

/// Marks `to` where `from` is marked; tells whether that is news.
bool handOn(Graph &graph, const BodyFlow::Pairs &pairs) {
  bool news = false;
  for (auto [from, to] : pairs)
    if (graph.tensors[from].differentiable && !graph.tensors[to].differentiable &&
        isFloating(graph.tensors[to].type))
      news = graph.tensors[to].differentiable = true;
  return news;
}

void markBodies(Graph &graph, const GraphNode &node) {
  for (const GraphBody &body : node.bodies) {
    BodyFlow flow = flowOf(node, body);
    handOn(graph, flow.in);
    markDifferentiable(graph, body.nodes);
    if (handOn(graph, flow.carried)) { // what is carried may take the gradient elsewhere
      for (auto [output, input] : flow.carried)
        graph.tensors[input].differentiable |= isFloating(graph.tensors[input].type);
      markDifferentiable(graph, body.nodes);
    }
    handOn(graph, flow.out);
  }
}

void markDifferentiable(Graph &graph, const std::vector<GraphNode> &nodes) {
  for (const GraphNode &node : nodes) {
    if (!node.bodies.empty()) {
      markBodies(graph, node);
      continue;
    }
    bool carries = false;
    for (TensorId id : node.inputs)
      carries = carries || (id != noTensor && graph.tensors[id].differentiable);
    carries = carries && passesGradients(node);
    for (TensorId id : node.outputs)
      if (id != noTensor)
        graph.tensors[id].differentiable = carries && isFloating(graph.tensors[id].type);
  }
}
} // namespace

void markDifferentiable(Graph &graph) {
  for (GraphTensor &tensor : graph.tensors)
    tensor.differentiable = tensor.role == TensorRole::Parameter;
  markDifferentiable(graph, graph.nodes);
}

bool isView(StringRef op) {
  static const StringSet<> ops = {"Identity",  "Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                  "Transpose", "Slice",   "Split",   "Expand"};
  return ops.count(op) != 0;
}

} // namespace heterplan
