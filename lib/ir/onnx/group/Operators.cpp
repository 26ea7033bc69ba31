#include "ir/onnx/group/Operators.h"

#include "ir/Attention.h"
#include "ir/Bias.h"
#include "ir/Bodies.h"
#include "ir/ModuleWeights.h"
#include "ir/onnx/group/OperatorTable.h"
#include "ir/onnx/group/Roles.h"
#include "ir/sharding/ShardConversions.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

using work::View;

namespace {

/// A lookup of rows: the table is trained and the indices vary.
bool isLookup(const View &view) {
  TensorId table = view.input(0), indices = view.input(1);
  return view.node.op == "Gather" && table != noTensor && indices != noTensor &&
         view.facts.weight[table] && view.facts.graph.tensors[indices].role != TensorRole::Constant;
}

bool isProductOfActivations(const View &view, const OperatorEntry &entry) {
  return entry.kind == LayerKind::MatMul && view.input(0) != noTensor &&
         view.input(1) != noTensor && !view.facts.weight[view.input(0)] &&
         !view.facts.weight[view.input(1)];
}

bool isDepthwise(const View &view) {
  ArrayRef<Dim> weight = view.shape(view.input(1));
  return view.node.op == "Conv" && view.integer("group", 1) > 1 && weight.size() > 1 &&
         weight[1].at(1) == 1;
}

LayerKind kindOf(const View &view, const OperatorEntry &entry) {
  if (view.node.op == "Gather")
    return isLookup(view) ? LayerKind::Embedding : LayerKind::DataMovement;
  if (isProductOfActivations(view, entry))
    return LayerKind::BatchedMatMul;
  return isDepthwise(view) ? LayerKind::DepthwiseConvolution : entry.kind;
}

/// Kernels one after another that compute the operator: a recurrence has one for each time step.
double kernelsOf(const View &view, LayerKind kind) {
  return kind == LayerKind::Recurrent ? std::max(1.0, work::recurrentSteps(view)) : 1;
}

bool isAttention(const View &view) {
  return view.node.op == "Attention" && view.node.domain.empty();
}

/// Whether PyTorch stores the scores of an Attention: it has no kernel, or none with a gradient of
/// the mask.
bool storesScores(const View &view) {
  return !isPlainAttention(view.facts.graph, view.node) || view.differentiable(view.input(3));
}

/// Operations of the backward pass. A product needs one more product for each operand with a
/// gradient; other operators about as much as forward for each, at most twice.
double backwardFlops(const View &view, const OperatorEntry &entry, double forward) {
  size_t operands = entry.weight == OperatorWeight::Heavy ? 2 : view.node.inputs.size();
  int gradients = 0;
  for (size_t i = 0; i < operands; ++i)
    gradients += view.differentiable(view.input(i));
  gradients +=
      any_of(moduleWeights(view.node), [&](TensorId id) { return view.differentiable(id); });
  const bool scoresAgain = gradients && isAttention(view) && !storesScores(view);
  return forward * (std::min(gradients, 2) + (scoresAgain ? 0.5 : 0));
}

/// Bytes that an Attention keeps besides its operands and result: the weights and the scores before
/// them, or one sum for each query.
double keptByAttention(const View &view) {
  const work::AttentionSize size = work::attentionSize(view);
  return sizeof(float) * size.queries * (storesScores(view) ? 2 * size.keys : 1);
}

void countKept(const View &view, const OperatorEntry &entry, OperatorCost &cost) {
  bool carries = false;
  for (TensorId id : view.node.outputs)
    carries = carries || view.differentiable(id);
  if (!carries || entry.keeps == KeptTensors::Nothing)
    return;
  if (entry.keeps == KeptTensors::Outputs) {
    cost.keeps.append(view.node.outputs.begin(), view.node.outputs.end());
    return;
  }
  if (entry.keeps == KeptTensors::InputsAndOutputs)
    cost.keeps.append(view.node.outputs.begin(), view.node.outputs.end());
  for (size_t i = 0; i < view.node.inputs.size(); ++i) {
    bool needed = entry.keeps != KeptTensors::Others;
    for (size_t j = 0; j < view.node.inputs.size(); ++j)
      needed = needed || (j != i && j < 2 && view.differentiable(view.input(j)));
    if (needed && (entry.keeps != KeptTensors::Others || i < 2))
      cost.keeps.push_back(view.input(i));
  }
  if (entry.keeps == KeptTensors::InputsAndIndices)
    cost.keepsBytes = 8 * view.facts.elements(view.output(0));
  if (isAttention(view))
    cost.keepsBytes = keptByAttention(view);
  if (entry.keeps == KeptTensors::InputsAndGates) // cuDNN's reserve: gates and cell of each step
    cost.keepsBytes = 6 * view.facts.bytes(view.output(0));
}

/// Bytes that autocast moves to cast operand `id` to the type in which `view` computes: it reads
/// one copy and writes the other.
double castBytes(const View &view, TensorId id) {
  const GraphTensor &tensor = view.facts.graph.tensors[id];
  AutocastRule rule = autocastRule(view.node);
  if (tensor.type != DataType::Float32 || rule == AutocastRule::Widest ||
      view.facts.half[id] == (rule == AutocastRule::Half))
    return 0;
  return 1.5 * view.facts.bytes(id);
}

/// Bytes of operand `id` in the type in which `view` computes.
double computedBytes(const View &view, TensorId id) {
  if (view.facts.graph.tensors[id].type != DataType::Float32)
    return view.facts.bytes(id);
  switch (autocastRule(view.node)) {
  case AutocastRule::Half:
    return view.facts.bytes(id) / 2;
  case AutocastRule::Single:
    return view.facts.bytes(id);
  case AutocastRule::Widest:
    break;
  }
  return view.facts.autocastBytes(id);
}

/// Layer::convolutionBytes. Only convolutions with stride 1 have kernels by transformation (cuDNN
/// developer guide, "Convolution Formulas").
double convolutionBytes(const View &view) {
  auto isOne = [](int64_t extent) { return extent == 1; };
  ArrayRef<Dim> weight = view.shape(view.input(1));
  if (view.node.op != "Conv" || view.input(0) == noTensor || weight.size() < 3 ||
      work::product(weight.drop_front(2)) <= 1 || !all_of(view.integers("strides"), isOne))
    return 0;
  return view.facts.bytes(view.input(0)) + view.facts.bytes(view.output(0));
}

/// Reads each operand and writes each result once; parameters are not counted. A lookup touches
/// only the rows that it reads.
void countForwardBytes(const View &view, OperatorCost &cost) {
  for (TensorId id : view.node.inputs)
    if (id != noTensor && !view.facts.weight[id]) {
      cost.forwardBytes += view.facts.bytes(id);
      cost.autocastForward += computedBytes(view, id) + castBytes(view, id);
    }
  for (TensorId id : view.node.outputs)
    if (id != noTensor) {
      cost.forwardBytes += view.facts.bytes(id);
      cost.autocastForward += view.facts.autocastBytes(id);
    }
  if (isLookup(view)) {
    cost.forwardBytes += view.facts.bytes(view.output(0));
    cost.autocastForward += view.facts.bytes(view.output(0));
  }
}

/// The outputs of the model exist until its backward pass ends. The loss keeps a copy of them (such
/// as the logarithms of the classes), and has a gradient of its own beside that of the outputs.
void addLoss(const View &view, OperatorCost &cost) {
  ArrayRef<TensorId> returned = view.facts.graph.outputs;
  for (TensorId id : view.node.outputs)
    if (is_contained(returned, id)) { // autocast computes it in fp32
      cost.workspaceBytes += 3 * view.facts.bytes(id);
      cost.autocastWorkspace += 3 * view.facts.bytes(id);
    }
}

/// Reads the gradient of the results once for each operand with a gradient (at most twice) and
/// what was kept; writes the gradients of the operands. They and those of the results are there at
/// once: its workspace.
void countBackwardBytes(const View &view, OperatorCost &cost) {
  double results = 0, autocastResults = 0;
  int gradients = 0;
  for (TensorId id : view.node.outputs)
    if (view.differentiable(id)) {
      results += view.facts.bytes(id);
      autocastResults += view.facts.autocastBytes(id);
    }
  for (TensorId id : view.node.inputs) {
    if (!view.differentiable(id))
      continue;
    ++gradients;
    if (view.facts.weight[id])
      continue;
    cost.backwardBytes += view.facts.bytes(id);
    cost.workspaceBytes += view.facts.bytes(id);
    cost.autocastBackward += computedBytes(view, id) + castBytes(view, id);
    cost.autocastWorkspace += view.facts.autocastBytes(id);
  }
  cost.workspaceBytes += gradients ? results : 0;
  cost.autocastWorkspace += gradients ? autocastResults : 0;
  if (gradients)
    addLoss(view, cost);
  cost.backwardBytes += results * std::min(gradients, 2);
  cost.autocastBackward += autocastResults * std::min(gradients, 2);
  if (isLookup(view) && gradients) {
    cost.backwardBytes += results; // the touched rows of the gradient
    cost.autocastBackward += results;
  }
  for (TensorId id : cost.keeps)
    if (id != noTensor && !view.facts.weight[id]) {
      cost.backwardBytes += view.facts.bytes(id);
      cost.autocastBackward += computedBytes(view, id);
    }
}

double fixedDim(ArrayRef<Dim> shape, size_t index) {
  return index < shape.size() ? double(shape[index].at(1)) : 0;
}

/// [M, C/group, k...] filters on one group of channels; a transposed one has the same operations.
ProductShape convolutionShape(const View &view) {
  ArrayRef<Dim> weight = view.shape(view.input(1));
  double groups = double(std::max<int64_t>(1, view.integer("group", 1)));
  if (weight.size() < 3)
    return {};
  bool transposed = view.node.op == "ConvTranspose";
  double channels = transposed ? fixedDim(weight, 1) * groups : fixedDim(weight, 0);
  double positions = transposed ? view.facts.elements(view.input(0)) / fixedDim(weight, 0)
                                : view.outputElements() / channels;
  double filter = work::product(weight.drop_front(2));
  if (transposed)
    return {positions, fixedDim(weight, 1) * filter, fixedDim(weight, 0) / groups, groups};
  return {positions, channels / groups, fixedDim(weight, 1) * filter, groups};
}

/// The product of `forward` operations whose result is [..., rows, columns].
ProductShape matrixShape(const View &view, LayerKind kind, double forward) {
  ArrayRef<Dim> shape = view.shape(view.output(0));
  double elements = view.outputElements();
  double columns = shape.empty() ? 0 : fixedDim(shape, shape.size() - 1);
  if (elements <= 0 || columns <= 0)
    return {};
  double depth = forward / 2 / elements, rows = elements / columns;
  if (kind != LayerKind::BatchedMatMul || shape.size() < 3)
    return {rows, columns, depth, 1};
  double perGroup = fixedDim(shape, shape.size() - 2);
  return perGroup > 0 ? ProductShape{perGroup, columns, depth, rows / perGroup} : ProductShape{};
}

ProductShape productShape(const View &view, LayerKind kind, double forward) {
  switch (kind) {
  case LayerKind::Convolution:
  case LayerKind::DepthwiseConvolution:
    return convolutionShape(view);
  case LayerKind::MatMul:
  case LayerKind::BatchedMatMul:
    return matrixShape(view, kind, forward);
  default:
    return {};
  }
}

void add(OperatorCost &total, const OperatorCost &cost, double times) {
  total.heavy |= cost.heavy;
  total.opaque |= cost.opaque;
  total.forwardFlops += times * cost.forwardFlops;
  total.backwardFlops += times * cost.backwardFlops;
  total.forwardBytes += times * cost.forwardBytes;
  total.backwardBytes += times * cost.backwardBytes;
  total.workspaceBytes = std::max(total.workspaceBytes, cost.workspaceBytes);
  total.convolutionBytes = std::max(total.convolutionBytes, cost.convolutionBytes);
  total.keepsBytes += times * cost.keepsBytes;
  total.autocastForward += times * cost.autocastForward;
  total.autocastBackward += times * cost.autocastBackward;
  total.autocastWorkspace = std::max(total.autocastWorkspace, cost.autocastWorkspace);
  total.kernels += times * cost.kernels;
}

/// The cost of the nodes of a body. The tensors kept of each iteration are added.
OperatorCost costOf(const GraphBody &body, const GraphFacts &facts) {
  OperatorCost total;
  double most = -1;
  for (const GraphNode &node : body.nodes) {
    OperatorCost cost = costOf(node, facts);
    for (TensorId id : cost.keeps)
      if (id != noTensor && !facts.weight[id] &&
          facts.graph.tensors[id].role == TensorRole::Activation)
        cost.keepsBytes += facts.bytes(id);
    if (cost.forwardFlops > most) {
      most = cost.forwardFlops;
      total.kind = cost.kind;
    }
    add(total, cost, 1);
  }
  return total;
}

/// If costs what its dearer branch does, a loop its body as often as it runs; once where that is
/// not known, which the notes say.
OperatorCost costOfBodies(const GraphNode &node, const GraphFacts &facts) {
  double times =
      node.iterations ? std::max(0.0, static_cast<double>(node.iterations->count.at(1))) : 1;
  OperatorCost dearest;
  bool heavy = false, opaque = false;
  for (const GraphBody &body : node.bodies) {
    OperatorCost once = costOf(body, facts), cost;
    cost.kind = once.kind;
    add(cost, once, times);
    heavy |= cost.heavy;
    opaque |= cost.opaque;
    if (cost.forwardFlops + cost.forwardBytes >= dearest.forwardFlops + dearest.forwardBytes)
      dearest = std::move(cost);
  }
  dearest.heavy = heavy;
  dearest.opaque = opaque;
  return dearest;
}

/// Whether `view` adds a parameter to a matrix product.
bool addsBias(const View &view) {
  if (view.node.op != "Add" || view.node.inputs.size() != 2)
    return false;
  TensorId a = view.input(0), b = view.input(1);
  return (view.facts.weight[a] && view.facts.product[b]) ||
         (view.facts.weight[b] && view.facts.product[a]);
}

/// Its gradient is a sum over that of the result, which passes on as it is.
OperatorCost costOfBias(const View &view, OperatorCost cost) {
  if (!view.differentiable(view.output(0)))
    return cost;
  cost.backwardBytes = view.facts.bytes(view.output(0));
  cost.autocastBackward = view.facts.autocastBytes(view.output(0));
  return cost;
}

} // namespace

OperatorCost costOf(const GraphNode &node, const GraphFacts &facts) {
  if (!node.bodies.empty())
    return costOfBodies(node, facts);
  View view{node, facts};
  const OperatorEntry *known = findOperator(node);
  OperatorCost cost;
  if (!known && !node.domain.empty()) {
    cost.kind = LayerKind::Opaque;
    cost.heavy = cost.opaque = true;
    return cost;
  }
  const OperatorEntry &entry = known ? *known : unlistedOperator();
  cost.kind = kindOf(view, entry);
  cost.heavy = entry.weight == OperatorWeight::Heavy || isLookup(view);
  cost.forwardFlops = entry.work(view);
  cost.backwardFlops = backwardFlops(view, entry, cost.forwardFlops);
  if (entry.weight == OperatorWeight::View)
    return cost;
  if (addsBias(view))
    return costOfBias(view, std::move(cost));
  cost.kernels = kernelsOf(view, cost.kind);
  cost.product = productShape(view, cost.kind, cost.forwardFlops);
  cost.channelsLast =
      cost.product && entry.kind == LayerKind::Convolution && facts.channelsLast[node.inputs[0]];
  cost.convolutionBytes = convolutionBytes(view);
  countKept(view, entry, cost);
  countForwardBytes(view, cost);
  countBackwardBytes(view, cost);
  return cost;
}

bool hasFormula(const GraphNode &node) { return findOperator(node) != nullptr; }

bool passesGradients(const GraphNode &node) {
  const OperatorEntry *entry = findOperator(node);
  return !entry || entry->flow == GradientFlow::Gradient;
}

} // namespace heterplan
