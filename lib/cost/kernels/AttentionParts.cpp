#include "cost/kernels/AttentionParts.h"

#include "ir/Attention.h"
#include "ir/NodeAttributes.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace heterplan::kernels {
namespace {
/// Whether Q, K and V have the same leading axes.
bool hasEqualHeads(const Graph &graph, const GraphNode &node) {
  const Shape &q = graph.tensors[node.inputs[0]].shape;
  if (q.size() < 3 || integerAttribute(node, "q_num_heads"))
    return false;
  for (size_t i : {1, 2}) {
    const Shape &other = graph.tensors[node.inputs[i]].shape;
    if (other.size() != q.size() ||
        ArrayRef<Dim>(other).drop_back(2) != ArrayRef<Dim>(q).drop_back(2))
      return false;
  }
  return true;
}

class Parts {
public:
  Parts(const Graph &graph, const GraphNode &node) : node(node) {
    for (TensorId id : node.inputs)
      if (id != noTensor)
        inputs.push_back(add(graph.tensors[id]));
    result = graph.tensors[node.outputs[0]];
  }

  Graph take() {
    const Shape &q = shape(inputs[0]), &k = shape(inputs[1]);
    const size_t rank = q.size();
    Shape turned = k, scores = q;
    std::swap(turned[rank - 1], turned[rank - 2]);
    scores.back() = k[rank - 2];
    TensorId value = chain("MatMul", {inputs[0], transposed(turned)}, scores);
    value = chain("Mul", {value, scale(q.back().fixed)}, scores);
    if (integerAttribute(node, "is_causal"))
      value = chain("Add", {value, triangle(scores)}, scores);
    if (inputs.size() > 3)
      value = chain("Add", {value, inputs[3]}, scores);
    value = chain("Softmax", {value}, scores);
    chain("MatMul", {value, inputs[2]}, result.shape);
    return std::move(parts);
  }

private:
  const GraphNode &node;
  Graph parts;
  std::vector<TensorId> inputs;
  GraphTensor result;

  const Shape &shape(TensorId id) const { return parts.tensors[id].shape; }

  TensorId add(GraphTensor tensor) {
    parts.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(parts.tensors.size() - 1);
  }

  /// A node whose result is as differentiable as that of the whole.
  TensorId chain(const char *op, SmallVector<TensorId, 4> operands, const Shape &shape) {
    GraphTensor tensor = result;
    tensor.shape = shape;
    GraphNode made;
    made.name = node.name + "/" + op;
    made.op = op;
    made.inputs = std::move(operands);
    made.outputs = {add(std::move(tensor))};
    parts.nodes.push_back(std::move(made));
    return parts.nodes.back().outputs[0];
  }

  TensorId transposed(const Shape &turned) {
    const TensorId id = chain("Transpose", {inputs[1]}, turned);
    std::vector<int64_t> order;
    for (size_t axis = 0; axis < turned.size(); ++axis)
      order.push_back(static_cast<int64_t>(axis));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    parts.nodes.back().attributes["perm"] = std::move(order);
    return id;
  }

  TensorId scale(int64_t size) {
    const auto *stated = findAttribute<double>(node, "scale");
    const auto value = static_cast<float>(stated ? *stated : 1 / std::sqrt(double(size)));
    GraphTensor tensor;
    tensor.type = DataType::Float32;
    tensor.role = TensorRole::Constant;
    tensor.data = TensorData{DataType::Float32, {}, std::string(sizeof value, '\0')};
    std::memcpy(tensor.data->bytes.data(), &value, sizeof value);
    return add(std::move(tensor));
  }

  TensorId triangle(const Shape &scores) {
    GraphTensor tensor;
    tensor.type = DataType::Float32;
    tensor.role = TensorRole::Input;
    tensor.shape.assign(scores.end() - 2, scores.end());
    return add(std::move(tensor));
  }
};
} // namespace

std::optional<Graph> attentionParts(const Graph &graph, const GraphNode &node) {
  if (!isPlainAttention(graph, node) || !hasEqualHeads(graph, node))
    return std::nullopt;
  return Parts(graph, node).take();
}

} // namespace heterplan::kernels
