#include "ir/onnx/normalize/Identities.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace heterplan {

namespace {

using folding::loadInteger;
using folding::loadReal;

/// The simplest equivalent of a node.
enum class Becomes { Itself, Same, Reshape, Expand };
struct Outcome {
  Becomes becomes = Becomes::Itself;
  size_t input = 0; // that is handed on
};

bool isReshaping(StringRef op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

class IdentityRemover {
public:
  IdentityRemover(Graph &graph, ArrayRef<GraphEvaluation> evaluations)
      : graph(graph), evaluations(evaluations), producer(graph.tensors.size(), -1),
        replacement(graph.tensors.size()), returned(graph.tensors.size()) {
    for (size_t id = 0; id < replacement.size(); ++id)
      replacement[id] = static_cast<TensorId>(id);
    for (TensorId id : graph.outputs)
      returned[id] = true;
    for (const GraphNode &node : graph.nodes) // bodies know them by their own name
      for (TensorId id : ArrayRef<TensorId>(node.inputs).take_back(node.captures))
        returned[id] = true;
  }

  void run() {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      GraphNode &node = graph.nodes[i];
      for (TensorId &id : node.inputs) // none of them is captured
        id = id == noTensor ? noTensor : replacement[id];
      visit(node);
      for (TensorId id : node.outputs)
        if (id != noTensor)
          producer[id] = static_cast<int>(i);
    }
  }

private:
  Graph &graph;
  ArrayRef<GraphEvaluation> evaluations;
  std::vector<int> producer;         // by tensor, of the nodes so far
  std::vector<TensorId> replacement; // by tensor
  std::vector<bool> returned;        // by the model, or read by a body

  const Shape &shape(TensorId id) const { return graph.tensors[id].shape; }

  static TensorId input(const GraphNode &node, size_t index) {
    return index < node.inputs.size() ? node.inputs[index] : noTensor;
  }

  /// Zero where absent.
  static int64_t integer(const GraphNode &node, const char *name) {
    return integerAttribute(node, name, 0);
  }

  /// Whether the shapes of all operands and of the result are more than bounds.
  bool hasShape(const GraphNode &node) const {
    auto isPlain = [&](TensorId id) {
      return id == noTensor ||
             (!graph.tensors[id].dynamic && graph.tensors[id].container == Container::None);
    };
    return all_of(node.inputs, isPlain) && isPlain(node.outputs[0]);
  }

  void visit(GraphNode &node) {
    if (!node.domain.empty() || input(node, 0) == noTensor || node.outputs.size() != 1 ||
        node.outputs[0] == noTensor)
      return;
    if (graph.tensors[node.outputs[0]].role != TensorRole::Activation || !hasShape(node))
      return; // a constant, or a size
    Outcome outcome = outcomeOf(node);
    if (outcome.becomes == Becomes::Reshape || outcome.becomes == Becomes::Expand)
      rewrite(node, outcome.becomes == Becomes::Reshape ? "Reshape" : "Expand",
              node.inputs[outcome.input]);
    if (isReshaping(node.op))
      joinReshapes(node);
    if (node.op == "Transpose")
      joinTransposes(node);
    bool same = outcome.becomes == Becomes::Same || isUnchanged(node);
    if (same && !returned[node.outputs[0]])
      replacement[node.outputs[0]] =
          node.inputs[outcome.becomes == Becomes::Same ? outcome.input : 0];
  }

  static void rewrite(GraphNode &node, StringRef op, TensorId source) {
    node.op = op.str();
    node.inputs = {source};
    node.attributes.clear();
  }

  // ---- nodes that hand on an input

  Outcome outcomeOf(const GraphNode &node) const {
    using Rule = Outcome (IdentityRemover::*)(const GraphNode &) const;
    static const StringMap<Rule> rules = {
        {"Identity", &IdentityRemover::identity},    {"Cast", &IdentityRemover::cast},
        {"Concat", &IdentityRemover::single},        {"Sum", &IdentityRemover::single},
        {"Max", &IdentityRemover::single},           {"Min", &IdentityRemover::single},
        {"Mean", &IdentityRemover::single},          {"Slice", &IdentityRemover::slice},
        {"Gather", &IdentityRemover::gather},        {"GatherND", &IdentityRemover::gatherND},
        {"And", &IdentityRemover::neutral<1>},       {"Or", &IdentityRemover::neutral<0>},
        {"Mul", &IdentityRemover::neutral<1>},       {"Add", &IdentityRemover::neutral<0>},
        {"Div", &IdentityRemover::neutral<1, true>}, {"Sub", &IdentityRemover::neutral<0, true>},
        {"Where", &IdentityRemover::guard},          {"Dropout", &IdentityRemover::dropout},
    };
    auto rule = rules.find(node.op);
    return rule == rules.end() ? Outcome() : (this->*rule->second)(node);
  }

  Outcome identity(const GraphNode &) const { return {Becomes::Same}; }

  Outcome cast(const GraphNode &node) const {
    bool same = graph.tensors[node.inputs[0]].type == graph.tensors[node.outputs[0]].type;
    return {same ? Becomes::Same : Becomes::Itself};
  }

  /// One that drops nothing, as exports in training mode have for a ratio of 0.
  Outcome dropout(const GraphNode &node) const {
    const TensorId ratio = input(node, 1);
    return {ratio != noTensor && isFilledWith(ratio, 0) ? Becomes::Same : Becomes::Itself};
  }

  Outcome single(const GraphNode &node) const {
    return {node.inputs.size() == 1 ? Becomes::Same : Becomes::Itself};
  }

  /// Everything, in order.
  Outcome slice(const GraphNode &node) const {
    if (shape(node.inputs[0]) != shape(node.outputs[0]))
      return {};
    TensorId steps = input(node, 4);
    return {steps == noTensor || isFilledWith(steps, 1) ? Becomes::Same : Becomes::Itself};
  }

  Outcome gather(const GraphNode &node) const {
    int64_t rank = static_cast<int64_t>(shape(node.inputs[0]).size());
    int64_t axis = integer(node, "axis");
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank || input(node, 1) == noTensor)
      return {};
    return selectsAll(node, static_cast<size_t>(axis), 1);
  }

  /// Its indices name elements by their first axes.
  Outcome gatherND(const GraphNode &node) const {
    TensorId indices = input(node, 1);
    if (integer(node, "batch_dims") || indices == noTensor || shape(indices).empty() ||
        shape(indices).back().perSample)
      return {};
    return selectsAll(node, 0, static_cast<size_t>(shape(indices).back().fixed));
  }

  /// Whether the indices, of `count` axes from `axis` on, count up through all elements.
  Outcome selectsAll(const GraphNode &node, size_t axis, size_t count) const {
    TensorId data = node.inputs[0], indices = node.inputs[1];
    for (const GraphEvaluation &evaluation : evaluations) {
      if (static_cast<size_t>(std::max(data, indices)) >= evaluation.types.size())
        return {}; // made since
      const TensorType &type = evaluation.types[data];
      const TensorData *values = evaluation.values[indices];
      if (!values || values->type != DataType::Int64 || !type.known || !count ||
          axis + count > type.dims.size())
        return {};
      ArrayRef<int64_t> dims = ArrayRef<int64_t>(type.dims).slice(axis, count);
      if (!countsUp(*values, dims))
        return {};
    }
    return {Becomes::Reshape};
  }

  static bool countsUp(const TensorData &values, ArrayRef<int64_t> dims) {
    int64_t elements = static_cast<int64_t>(values.bytes.size() / sizeof(int64_t));
    int64_t width = static_cast<int64_t>(dims.size()), expected = 0;
    for (int64_t at = 0; at + width <= elements; at += width, ++expected) {
      int64_t element = 0;
      for (int64_t i = 0; i < width; ++i) {
        int64_t index = loadInteger(values, at + i);
        if (index < 0 || index >= dims[i])
          return false;
        element = element * dims[i] + index;
      }
      if (element != expected)
        return false;
    }
    return expected == folding::countOf(dims);
  }

  /// A binary operation with a constant that does not change the other operand, except that it may
  /// broadcast it.
  template <int64_t value, bool onlySecond = false> Outcome neutral(const GraphNode &node) const {
    for (size_t constant : {1, 0}) {
      size_t other = 1 - constant;
      if ((onlySecond && constant == 0) || input(node, 1) == noTensor ||
          !isFilledWith(node.inputs[constant], value))
        continue;
      bool same = shape(node.inputs[other]) == shape(node.outputs[0]);
      return {same ? Becomes::Same : Becomes::Expand, other};
    }
    return {};
  }

  /// Weights of an attention without a mask, where a row of nothing but masked keys would be 0: the
  /// exporter that traces with Dynamo writes so for any attention.
  Outcome guard(const GraphNode &node) const {
    const GraphNode *isNan = node.inputs.size() == 3 ? producerOf(node.inputs[0]) : nullptr;
    const GraphNode *softmax = isNan && isNan->op == "IsNaN" && isNan->inputs[0] == node.inputs[2]
                                   ? producerOf(node.inputs[2])
                                   : nullptr;
    const GraphNode *scores =
        softmax && softmax->op == "Softmax" ? producerOf(softmax->inputs[0]) : nullptr;
    const bool isGuard = scores && scores->op == "MatMul" && scores->domain.empty() &&
                         isFilledWith(node.inputs[1], 0) &&
                         shape(node.inputs[2]) == shape(node.outputs[0]);
    return {isGuard ? Becomes::Same : Becomes::Itself, 2};
  }

  /// Whether every element is `value`: of a constant, or of what the model computes at each batch
  /// from nothing else (say, a mask that hides nothing).
  bool isFilledWith(TensorId id, int64_t value) const {
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role == TensorRole::Constant)
      return tensor.data && isFilledWith(*tensor.data, value);
    return tensor.role == TensorRole::Activation && all_of(evaluations, [&](const auto &each) {
             const auto index = static_cast<size_t>(id);
             const bool isKnown =
                 index < each.types.size() && each.values[index] && !each.assumed[index];
             return isKnown && isFilledWith(*each.values[id], value);
           });
  }

  static bool isFilledWith(const TensorData &data, int64_t value) {
    if (!folding::isComputable(data.type) || data.bytes.empty())
      return false;
    auto count = static_cast<int64_t>(data.bytes.size()) / sizeOf(data.type);
    for (int64_t i = 0; i < count; ++i)
      if (isFloating(data.type) ? loadReal(data, i) != static_cast<double>(value)
                                : loadInteger(data, i) != value)
        return false;
    return true;
  }

  /// Whether a node that only moves elements keeps their order, given that its shape stays the
  /// same.
  bool isUnchanged(const GraphNode &node) const {
    static const StringSet<> ops = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"};
    if (node.op == "Transpose")
      return !permutation(node).empty() && is_sorted(permutation(node));
    return ops.count(node.op) && shape(node.inputs[0]) == shape(node.outputs[0]);
  }

  // ---- chains

  const GraphNode *producerOf(TensorId id) const {
    return id == noTensor || producer[id] < 0 ? nullptr : &graph.nodes[producer[id]];
  }

  void joinReshapes(GraphNode &node) {
    const GraphNode *before = producerOf(node.inputs[0]);
    if (before && isReshaping(before->op) && before->domain.empty())
      rewrite(node, "Reshape", before->inputs[0]);
    else if (auto order = transposedInside(node))
      transpose(node, *order);
  }

  /// The permutation of a Transpose; empty if its attribute is not a permutation.
  std::vector<int64_t> permutation(const GraphNode &node) const {
    auto rank = static_cast<int64_t>(shape(node.inputs[0]).size());
    std::vector<int64_t> axes, result;
    for (int64_t axis = 0; axis < rank; ++axis)
      axes.push_back(axis);
    auto given = node.attributes.find("perm");
    if (given == node.attributes.end())
      return {axes.rbegin(), axes.rend()};
    if (const auto *values = std::get_if<std::vector<int64_t>>(&given->second))
      result = *values;
    bool valid = std::is_permutation(axes.begin(), axes.end(), result.begin(), result.end());
    return valid ? result : std::vector<int64_t>();
  }

  void joinTransposes(GraphNode &node) {
    const GraphNode *before = producerOf(node.inputs[0]);
    if (!before || before->op != "Transpose" || !before->domain.empty())
      return;
    std::vector<int64_t> first = permutation(*before), second = permutation(node), order;
    if (first.size() != second.size())
      return;
    for (int64_t axis : second)
      order.push_back(first[axis]);
    rewrite(node, "Transpose", before->inputs[0]);
    node.attributes["perm"] = std::move(order);
  }

  /// [a, b, c, d] -> [a·b, c, d] -> [a·b, d, c] -> [a, b, d, c], the last a Reshape: the axes that
  /// it exchanges.
  std::optional<std::vector<int64_t>> transposedInside(const GraphNode &node) const {
    const GraphNode *middle = producerOf(node.inputs[0]);
    const GraphNode *before =
        middle && middle->op == "Transpose" ? producerOf(middle->inputs[0]) : nullptr;
    if (!before || !isReshaping(before->op) || !before->domain.empty())
      return std::nullopt;
    const Shape &source = shape(before->inputs[0]), &merged = shape(before->outputs[0]);
    std::vector<int64_t> inner = permutation(*middle), order;
    if (inner.empty() || inner[0] != 0 || source.size() < merged.size())
      return std::nullopt;
    size_t outer = source.size() - merged.size() + 1; // axes that count as one in between
    if (ArrayRef<Dim>(source).drop_front(outer) != ArrayRef<Dim>(merged).drop_front())
      return std::nullopt;
    Shape result(source.begin(), source.begin() + static_cast<long>(outer));
    for (size_t i = 0; i < outer; ++i)
      order.push_back(static_cast<int64_t>(i));
    for (size_t i = 1; i < inner.size(); ++i) {
      order.push_back(inner[i] + static_cast<int64_t>(outer) - 1);
      result.push_back(source[order.back()]);
    }
    return result == shape(node.outputs[0]) ? std::optional(order) : std::nullopt;
  }

  void transpose(GraphNode &node, std::vector<int64_t> order) {
    const GraphNode *middle = producerOf(node.inputs[0]);
    rewrite(node, "Transpose", producerOf(middle->inputs[0])->inputs[0]);
    node.attributes["perm"] = std::move(order);
    joinTransposes(node);
  }
};

} // namespace

void removeIdentities(Graph &graph, ArrayRef<GraphEvaluation> evaluations) {
  IdentityRemover(graph, evaluations).run();
}

} // namespace heterplan
