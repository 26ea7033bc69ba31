#include "ir/onnx/normalize/AttentionFusion.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/fold/IndexedTensors.h"
#include "ir/onnx/normalize/Origins.h"
#include "ir/onnx/read/FreshNames.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {

/// Scores to which this is added, or which it replaces, have no weight.
constexpr double hidden = -1e4;
/// Adding a number to this does not change it.
constexpr double lowest = -1e30;
/// Operators between a product and its softmax; more are none that exporters write.
constexpr int mostSteps = 8;

/// A mask of the scores: a tensor that is added, or `fill` where `condition` is not `shown`.
struct Mask {
  TensorId added = noTensor;
  TensorId condition = noTensor, fill = noTensor;
  bool shown = true;
};

/// softmax(scale · query·transposedKey + masks)·value
struct Attention {
  TensorId query = noTensor, transposedKey = noTensor, value = noTensor;
  double scale = 1;
  bool isScaled = false;
  SmallVector<Mask, 2> masks;
};

class AttentionFinder {
public:
  AttentionFinder(const Graph &graph, const Origins &origins) : graph(graph), origins(origins) {}

  /// The attention whose last product is `node`.
  std::optional<Attention> find(const GraphNode &node) const {
    if (node.op != "MatMul" || !node.domain.empty() || node.inputs.size() != 2)
      return std::nullopt;
    const GraphNode *softmax = softmaxOf(node.inputs[0]);
    Attention found;
    found.value = node.inputs[1];
    if (!softmax || !readScores(softmax->inputs[0], found, mostSteps) || !hasShapes(node, found))
      return std::nullopt;
    return found;
  }

private:
  const Graph &graph;
  const Origins &origins;

  const Shape &shape(TensorId id) const { return graph.tensors[id].shape; }

  /// The softmax that computes the weights `id` for one product, perhaps behind a guard: the
  /// exporter that traces with Dynamo makes the weights of a query that may look nowhere 0.
  const GraphNode *softmaxOf(TensorId id) const {
    if (id == noTensor || !origins.isUsed(id, 1))
      return nullptr;
    const GraphNode *softmax = origins.made(id, "Softmax");
    if (const GraphNode *guard = origins.made(id, "Where")) {
      const GraphNode *isNan = origins.made(guard->inputs[0], "IsNaN");
      softmax = origins.made(guard->inputs[2], "Softmax");
      if (!isNan || isNan->inputs[0] != guard->inputs[2] ||
          !origins.isNumber(guard->inputs[1], 0) || !origins.isUsed(guard->inputs[2], 2) ||
          !origins.isUsed(guard->inputs[0], 1))
        return nullptr;
    }
    if (!softmax || integerAttribute(*softmax, "flattened"))
      return nullptr;
    const auto rank = static_cast<int64_t>(shape(softmax->inputs[0]).size());
    const int64_t axis = integerAttribute(*softmax, "axis", -1);
    return axis == -1 || axis == rank - 1 ? softmax : nullptr;
  }

  /// Reads from the softmax back to the product of query and key.
  bool readScores(TensorId id, Attention &found, int steps) const {
    if (steps == 0 || !origins.isUsed(id, 1))
      return false;
    if (const GraphNode *product = origins.made(id, "MatMul"))
      return readProduct(*product, found);
    if (auto scaled = scaledBy(id)) {
      found.scale *= scaled->second;
      found.isScaled = true;
      return readScores(scaled->first, found, steps - 1);
    }
    if (const GraphNode *sum = found.isScaled ? nullptr : origins.made(id, "Add"))
      return readMasked(*sum, 0, maskAdded(sum->inputs[1]), found, steps) ||
             readMasked(*sum, 1, maskAdded(sum->inputs[0]), found, steps);
    if (const GraphNode *where = found.isScaled ? nullptr : origins.made(id, "Where"))
      return readMasked(*where, 1, {noTensor, where->inputs[0], where->inputs[2], true}, found,
                        steps) ||
             readMasked(*where, 2, {noTensor, where->inputs[0], where->inputs[1], false}, found,
                        steps);
    return false;
  }

  /// Reads on behind `node`, which masks its operand `scores`.
  bool readMasked(const GraphNode &node, size_t scores, const Mask &mask, Attention &found,
                  int steps) const {
    const bool isHiding =
        mask.fill != noTensor && origins.numberOf(mask.fill).value_or(0) <= hidden;
    const TensorId id = mask.added != noTensor ? mask.added : mask.condition;
    if ((mask.added == noTensor && !isHiding) || origins.isTrained(id) ||
        graph.tensors[id].dynamic || shape(node.outputs[0]) != shape(node.inputs[scores]))
      return false;
    if (mask.added != noTensor && graph.tensors[id].type != graph.tensors[node.outputs[0]].type)
      return false;
    Attention tried = found;
    tried.masks.push_back(mask);
    if (!readScores(node.inputs[scores], tried, steps - 1))
      return false;
    found = std::move(tried);
    return true;
  }

  /// A mask that is added: 0 where a condition holds, and far below elsewhere, or any tensor.
  Mask maskAdded(TensorId id) const {
    Mask mask;
    mask.added = id;
    const GraphNode *where = origins.made(id, "Where");
    for (size_t shown : {1, 2})
      if (where && origins.isNumber(where->inputs[shown], 0) &&
          origins.numberOf(where->inputs[3 - shown]).value_or(0) <= hidden)
        return {id, where->inputs[0], where->inputs[3 - shown], shown == 1};
    return mask;
  }

  bool readProduct(const GraphNode &product, Attention &found) const {
    found.query = product.inputs[0];
    found.transposedKey = product.inputs[1];
    for (TensorId *operand : {&found.query, &found.transposedKey})
      while (auto scaled = origins.isUsed(*operand, 1) ? scaledBy(*operand) : std::nullopt) {
        found.scale *= scaled->second;
        *operand = scaled->first;
      }
    return std::isfinite(found.scale) && found.scale > 0;
  }

  /// The tensor and the factor, a number, whose product is `id`.
  std::optional<std::pair<TensorId, double>> scaledBy(TensorId id) const {
    if (const GraphNode *quotient = origins.made(id, "Div"))
      if (auto number = origins.numberOf(quotient->inputs[1]); number && *number > 0)
        return std::pair(quotient->inputs[0], 1 / *number);
    if (const GraphNode *product = origins.made(id, "Mul"))
      for (size_t side : {1, 0})
        if (auto number = origins.numberOf(product->inputs[side]); number && *number > 0)
          return std::pair(product->inputs[1 - side], *number);
    return std::nullopt;
  }

  /// Samples, alone or times heads, come first in all operands, and nothing is broadcast.
  bool hasShapes(const GraphNode &node, const Attention &found) const {
    const Shape &q = shape(found.query), &k = shape(found.transposedKey), &v = shape(found.value);
    const size_t rank = q.size();
    if ((rank != 3 && rank != 4) || k.size() != rank || v.size() != rank ||
        shape(node.outputs[0]).size() != rank)
      return false;
    for (size_t axis = 0; axis < rank; ++axis) {
      const bool isOuter = axis + 2 < rank;
      for (const Shape *each : {&q, &k, &v})
        if (((*each)[axis].perSample > 0) != (axis == 0) || (isOuter && (*each)[axis] != q[axis]))
          return false;
    }
    for (TensorId id : {found.query, found.transposedKey, found.value})
      if (graph.tensors[id].dynamic || graph.tensors[id].container != Container::None ||
          graph.tensors[id].type != graph.tensors[node.outputs[0]].type)
        return false;
    return q[rank - 1] == k[rank - 2] && k[rank - 1] == v[rank - 2];
  }
};

class AttentionFuser {
public:
  AttentionFuser(Graph &graph, ArrayRef<GraphEvaluation> evaluations)
      : graph(graph), evaluations(evaluations), origins(graph), names(graph) {
    for (const GraphEvaluation &each : evaluations)
      indexed.emplace_back(graph, each);
  }

  void run() {
    const AttentionFinder finder(graph, origins);
    std::map<size_t, std::vector<GraphNode>> fused; // what stands for a node, by its index
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (auto found = finder.find(graph.nodes[i]))
        if (std::vector<GraphNode> nodes = fuse(graph.nodes[i], *found); !nodes.empty())
          fused[i] = std::move(nodes);
    std::vector<GraphNode> nodes;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      auto replaced = fused.find(i);
      if (replaced == fused.end())
        nodes.push_back(std::move(graph.nodes[i]));
      else
        std::move(replaced->second.begin(), replaced->second.end(), std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
  }

private:
  Graph &graph;
  ArrayRef<GraphEvaluation> evaluations;
  std::vector<IndexedTensors> indexed; // by evaluation
  Origins origins;
  FreshNames names;
  /// The findings of isTriangle(), by tensor and length. Layers share masks.
  std::map<std::pair<TensorId, int64_t>, bool> triangles;

  /// The nodes that stand for `product`; none where a mask has no form that Attention takes.
  std::vector<GraphNode> fuse(const GraphNode &product, const Attention &found) {
    std::vector<GraphNode> nodes;
    GraphNode fused;
    TensorId added = noTensor;
    for (const Mask &mask : found.masks) {
      if (isCausal(mask, lengthOf(found))) {
        fused.attributes["is_causal"] = int64_t(1);
        continue;
      }
      if (added != noTensor || (added = addedMask(mask, found, nodes)) == noTensor)
        return {};
    }
    fused.inputs = {found.query, keyOf(found.transposedKey, nodes), found.value};
    if (added != noTensor)
      fused.inputs.push_back(added);
    fused.name = product.name;
    fused.op = "Attention";
    fused.outputs = product.outputs;
    fused.number = product.number;
    const auto size = static_cast<double>(graph.tensors[found.query].shape.back().fixed);
    if (std::abs(found.scale * std::sqrt(size) - 1) > 1e-6) // else the default, without rounding
      fused.attributes["scale"] = found.scale;
    nodes.push_back(std::move(fused));
    return nodes;
  }

  /// The number of queries where it is that of the keys; else 0.
  int64_t lengthOf(const Attention &found) const {
    const Shape &q = graph.tensors[found.query].shape;
    const Dim keys = graph.tensors[found.transposedKey].shape.back();
    return q[q.size() - 2] == keys ? keys.fixed : 0;
  }

  /// The key before it was transposed.
  TensorId keyOf(TensorId transposed, std::vector<GraphNode> &before) {
    TensorId source = transposed;
    const size_t rank = graph.tensors[transposed].shape.size();
    std::vector<int64_t> order;
    for (size_t axis = 0; axis < rank; ++axis)
      order.push_back(static_cast<int64_t>(axis));
    if (const GraphNode *transpose = origins.made(transposed, "Transpose"))
      if (const auto *given = findAttribute<std::vector<int64_t>>(*transpose, "perm"))
        source = transpose->inputs[0], order = *given;
    std::swap(order[rank - 1], order[rank - 2]);
    if (is_sorted(order))
      return source;
    GraphTensor key = graph.tensors[transposed];
    std::swap(key.shape[rank - 1], key.shape[rank - 2]);
    key.name = key.name.substr(0, 200) + "_key";
    key.role = TensorRole::Activation;
    key.data.reset();
    key.external.reset();
    const TensorId id = names.add(std::move(key));
    before.push_back(names.node("Transpose", {source}, id));
    before.back().attributes["perm"] = std::move(order);
    return id;
  }

  /// A mask as a tensor to be added; none if it has no value for each key, or if scores that it
  /// replaces may be all that a query sees.
  TensorId addedMask(const Mask &mask, const Attention &found, std::vector<GraphNode> &before) {
    const Shape &values = graph.tensors[mask.added != noTensor ? mask.added : mask.condition].shape;
    const size_t rank = graph.tensors[found.query].shape.size();
    if ((values.size() != 2 && values.size() != rank) ||
        values.back() != graph.tensors[found.transposedKey].shape.back())
      return noTensor;
    if (mask.added != noTensor)
      return mask.added;
    const TensorData &fill = *graph.tensors[mask.fill].data;
    if (folding::loadReal(fill, 0) > lowest)
      return noTensor;
    GraphTensor zero = graph.tensors[mask.fill];
    zero.name = "shown";
    std::fill(zero.data->bytes.begin(), zero.data->bytes.end(), '\0');
    GraphTensor added = graph.tensors[mask.condition];
    added.name = added.name.substr(0, 200) + "_mask";
    added.type = graph.tensors[found.query].type;
    added.role = TensorRole::Activation;
    added.data.reset();
    added.external.reset();
    const TensorId nothing = names.add(std::move(zero)), id = names.add(std::move(added));
    const TensorId first = mask.shown ? nothing : mask.fill;
    const TensorId second = mask.shown ? mask.fill : nothing;
    before.push_back(names.node("Where", {mask.condition, first, second}, id));
    return id;
  }

  // ---- masks whose values are known, or follow from positions

  /// Whether each of `length` queries sees the keys up to its own and no others.
  bool isCausal(const Mask &mask, int64_t length) {
    if (length < 2)
      return false;
    if (mask.added != noTensor) {
      auto [found, isNew] = triangles.try_emplace({mask.added, length});
      if (isNew)
        found->second = isTriangle(mask.added, length);
      if (found->second)
        return true;
    }
    TensorId condition = mask.condition;
    while (const GraphNode *expand = origins.made(condition, "Expand"))
      condition = expand->inputs[0];
    return condition != noTensor && !indexed.empty() && all_of(indexed, [&](IndexedTensors &each) {
             return each.isTriangle(condition, length, mask.shown);
           });
  }

  /// Whether the values of `id`, which is added, are known, at each batch, and let each query see
  /// so.
  bool isTriangle(TensorId id, int64_t length) const {
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role == TensorRole::Constant)
      return tensor.data && isTriangle(*tensor.data, length, tensor.type);
    const auto index = static_cast<size_t>(id);
    return !evaluations.empty() && all_of(evaluations, [&](const GraphEvaluation &each) {
      return index < each.types.size() && each.values[index] && !each.assumed[index] &&
             isTriangle(*each.values[index], length, tensor.type);
    });
  }

  static bool isTriangle(const TensorData &data, int64_t length, DataType type) {
    const size_t rank = data.shape.size();
    if (data.type != type || !folding::isComputable(type) || rank < 2 ||
        data.shape[rank - 1] != length || data.shape[rank - 2] != length || data.bytes.empty())
      return false;
    const auto count = static_cast<int64_t>(data.bytes.size()) / sizeOf(type);
    for (int64_t at = 0; at < count; ++at) {
      const double value = folding::loadReal(data, at);
      if (at % length <= at / length % length ? value != 0 : !(value <= hidden))
        return false;
    }
    return true;
  }
};

} // namespace

void fuseAttention(Graph &graph, ArrayRef<GraphEvaluation> evaluations) {
  AttentionFuser(graph, evaluations).run();
}

} // namespace heterplan
