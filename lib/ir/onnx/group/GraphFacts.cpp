#include "ir/onnx/group/GraphFacts.h"

#include "ir/Bias.h"
#include "ir/Bodies.h"
#include "ir/onnx/group/OperatorTable.h"
#include "ir/onnx/group/Roles.h"
#include "ir/sharding/ShardConversions.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

using work::View;

namespace {

/// Whether `view` is a transposition that moves the last dimension to the second place: [0, 3, 1,
/// 2] of images.
bool bringsChannelsFirst(const View &view) {
  const std::vector<int64_t> order = view.integers("perm");
  if (order.size() < 4 || order[0] != 0 || order[1] != int64_t(order.size()) - 1)
    return false;
  for (size_t i = 2; i < order.size(); ++i)
    if (order[i] != int64_t(i) - 1)
      return false;
  return true;
}

bool keepsFormat(const GraphNode &node, const OperatorEntry &entry) {
  static const StringSet<> others = {"BatchNormalization", "Identity"};
  return entry.kind == LayerKind::Convolution || entry.kind == LayerKind::Pooling ||
         entry.kind == LayerKind::Elementwise || others.count(node.op);
}

} // namespace

GraphFacts::GraphFacts(const Graph &graph)
    : graph(graph), weight(graph.tensors.size()), storage(graph.tensors.size()),
      half(graph.tensors.size()), product(graph.tensors.size()),
      channelsLast(graph.tensors.size()) {
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    weight[id] = isWeight(graph.tensors[id].role);
    storage[id] = static_cast<TensorId>(id);
  }
  eachNode(graph.nodes, [&](const GraphNode &node) {
    bool some = false, all = node.bodies.empty();
    for (TensorId id : node.inputs) {
      if (id == noTensor)
        continue;
      some = some || weight[id];
      all = all && (weight[id] || graph.tensors[id].role == TensorRole::Constant);
    }
    for (TensorId id : node.outputs) {
      if (id == noTensor)
        continue;
      weight[id] = some && all;
      if (isView(node.op) && !node.inputs.empty() && node.inputs[0] != noTensor)
        storage[id] = storage[node.inputs[0]];
    }
    addHalves(node);
    addFormat(node);
    if (takesBias(node) && !node.outputs.empty() && node.outputs[0] != noTensor)
      product[node.outputs[0]] = true;
  });
}

/// Results have the format of the first operand of their shape, as PyTorch's arithmetic chooses it;
/// those of convolutions and windows have that of the images.
void GraphFacts::addFormat(const GraphNode &node) {
  const OperatorEntry *entry = findOperator(node);
  if (!entry || node.inputs.empty() || node.inputs[0] == noTensor || node.outputs.empty() ||
      node.outputs[0] == noTensor)
    return;
  const View view{node, *this};
  const TensorId result = node.outputs[0];
  if (node.op == "Transpose") {
    channelsLast[result] = !channelsLast[node.inputs[0]] && bringsChannelsFirst(view);
    return;
  }
  if (!keepsFormat(node, *entry))
    return;
  if (entry->kind == LayerKind::Convolution || entry->kind == LayerKind::Pooling) {
    channelsLast[result] = channelsLast[node.inputs[0]];
    return;
  }
  for (TensorId id : node.inputs)
    if (id != noTensor && view.shape(id) == view.shape(result)) {
      channelsLast[result] = channelsLast[id];
      return;
    }
}

/// Whether operand `index` of `node`, which is no activation, widens a result in 16 bits to fp32: a
/// tensor of arithmetic does, a number and the bias of a product do not.
bool GraphFacts::widens(const GraphNode &node, size_t index) const {
  static const StringSet<> arithmetic = {"Add", "Sub", "Mul",   "Div",   "Sum",
                                         "Max", "Min", "Where", "Concat"};
  const TensorId id = node.inputs[index];
  if (!arithmetic.count(node.op) || !isFloating(graph.tensors[id].type) || elements(id) == 1)
    return false;
  const TensorId other = node.inputs.size() == 2 ? node.inputs[1 - index] : noTensor;
  const bool biases =
      node.op == "Add" && isBias(graph.tensors[id]) && other != noTensor && product[other];
  return !biases;
}

void GraphFacts::addHalves(const GraphNode &node) {
  AutocastRule rule = autocastRule(node);
  bool some = false, all = node.bodies.empty();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId id = node.inputs[i];
    if (id == noTensor)
      continue;
    if (weight[id] || isStored(graph.tensors[id].role)) {
      all &= half[id] || !widens(node, i);
    } else if (isFloating(graph.tensors[id].type)) {
      some |= half[id];
      all &= half[id];
    }
  }
  for (TensorId id : node.outputs)
    if (id != noTensor && graph.tensors[id].type == DataType::Float32)
      half[id] = rule == AutocastRule::Half || (rule == AutocastRule::Widest && some && all);
}

double GraphFacts::elements(TensorId id) const {
  if (id == noTensor)
    return 0;
  const GraphTensor &tensor = graph.tensors[id];
  if (!tensor.elements)
    return std::max(0.0, elementCount(tensor.shape, 1));
  double total = 0;
  for (const Shape &shape : *tensor.elements)
    total += std::max(0.0, elementCount(shape, 1));
  return total;
}

double GraphFacts::bytes(TensorId id) const {
  return id == noTensor ? 0 : elements(id) * static_cast<double>(sizeOf(graph.tensors[id].type));
}

double GraphFacts::autocastBytes(TensorId id) const {
  return id == noTensor ? 0 : bytes(id) * (half[id] ? 0.5 : 1);
}

/// The lists of torch.amp, "Autocast Op Reference"; an exponential or a power is a part of a loss
/// or of a normalisation there.
AutocastRule autocastRule(const GraphNode &node) {
  static const StringSet<> half = {"Conv",
                                   "ConvTranspose",
                                   "Gemm",
                                   "MatMul",
                                   "Einsum",
                                   "DeformConv",
                                   "Attention",
                                   "MultiHeadAttention",
                                   "GroupQueryAttention",
                                   "LSTM",
                                   "GRU",
                                   "RNN",
                                   "FusedMatMul"};
  static const StringSet<> single = {"Softmax",
                                     "LogSoftmax",
                                     "LayerNormalization",
                                     "GroupNormalization",
                                     "Exp",
                                     "Log",
                                     "Pow",
                                     "Reciprocal",
                                     "ReduceSum",
                                     "ReduceProd",
                                     "ReduceL1",
                                     "ReduceL2",
                                     "ReduceSumSquare",
                                     "CumSum",
                                     "Softplus",
                                     "Sinh",
                                     "Cosh",
                                     "Tan",
                                     "Asin",
                                     "Acos",
                                     "SoftmaxCrossEntropyLoss",
                                     "NegativeLogLikelihoodLoss",
                                     "RMSNormalization"};
  if (half.count(node.op) || castsToHalf(node))
    return AutocastRule::Half;
  return single.count(node.op) ? AutocastRule::Single : AutocastRule::Widest;
}

} // namespace heterplan
