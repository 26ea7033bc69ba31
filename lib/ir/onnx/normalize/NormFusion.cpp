#include "ir/onnx/normalize/NormFusion.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/normalize/Origins.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

/// scale · (data · 1/√(mean(data²) + epsilon)), the mean over the last `axes` axes.
struct Norm {
  TensorId data = noTensor, scale = noTensor;
  double epsilon = 0;
  size_t axes = 0;
};

class NormFinder {
public:
  NormFinder(const Graph &graph, const Origins &origins) : graph(graph), origins(origins) {}

  /// The normalisation whose last product is `node`.
  std::optional<Norm> find(const GraphNode &node) const {
    if (!isBinary(node, "Mul"))
      return std::nullopt;
    for (size_t side : {0, 1}) {
      auto found = normalized(node.inputs[1 - side]);
      if (!found)
        continue;
      found->scale = node.inputs[side];
      if (isWellTyped(*found, node.outputs[0]))
        return found;
    }
    return std::nullopt;
  }

private:
  const Graph &graph;
  const Origins &origins;

  const GraphTensor &tensor(TensorId id) const { return graph.tensors[id]; }
  size_t rank(TensorId id) const { return tensor(id).shape.size(); }

  static bool isBinary(const GraphNode &node, StringRef op) {
    return node.op == op && node.domain.empty() && node.inputs.size() == 2 &&
           !is_contained(node.inputs, noTensor);
  }

  /// The node that computes `id` by `op` for one node alone.
  const GraphNode *madeForOne(TensorId id, StringRef op) const {
    const GraphNode *node = origins.made(id, op);
    return node && origins.isUsed(id, 1) ? node : nullptr;
  }

  /// Reads data · 1/√(mean(data²) + ε), perhaps in single precision between two casts.
  std::optional<Norm> normalized(TensorId id) const {
    if (id == noTensor)
      return std::nullopt;
    const GraphNode *narrowed = madeForOne(id, "Cast");
    const TensorId result = narrowed ? narrowed->inputs[0] : id;
    auto found = quotient(result);
    if (!found || !narrowed)
      return found;
    const GraphNode *widened = origins.made(found->data, "Cast");
    if (!widened || tensor(found->data).type != DataType::Float32)
      return std::nullopt;
    found->data = widened->inputs[0];
    return found;
  }

  /// Reads data / √(mean(data²) + ε), or a product with the inverse of the root.
  std::optional<Norm> quotient(TensorId id) const {
    if (const GraphNode *division = madeForOne(id, "Div"))
      return ofSquares(rooted(division->inputs[1]), division->inputs[0]);
    const GraphNode *product = madeForOne(id, "Mul");
    for (size_t side : {0, 1})
      if (product)
        if (auto found = ofSquares(inverted(product->inputs[side]), product->inputs[1 - side]))
          return found;
    return std::nullopt;
  }

  /// The t of √t, if `id` is one; else no tensor.
  TensorId rooted(TensorId id) const {
    if (const GraphNode *root = madeForOne(id, "Sqrt"))
      return root->inputs[0];
    const GraphNode *power = madeForOne(id, "Pow");
    return power && origins.isNumber(power->inputs[1], 0.5) ? power->inputs[0] : noTensor;
  }

  /// The t of 1/√t, if `id` is one; else no tensor.
  TensorId inverted(TensorId id) const {
    if (const GraphNode *inverse = madeForOne(id, "Reciprocal"))
      return rooted(inverse->inputs[0]);
    if (const GraphNode *inverse = madeForOne(id, "Div"))
      return origins.isNumber(inverse->inputs[0], 1) ? rooted(inverse->inputs[1]) : noTensor;
    const GraphNode *power = madeForOne(id, "Pow");
    return power && origins.isNumber(power->inputs[1], -0.5) ? power->inputs[0] : noTensor;
  }

  /// The norm of `data` if `sum` is mean(data²) + ε.
  std::optional<Norm> ofSquares(TensorId sum, TensorId data) const {
    const GraphNode *added = sum == noTensor ? nullptr : madeForOne(sum, "Add");
    for (size_t side : {0, 1}) {
      const auto epsilon = added ? origins.numberOf(added->inputs[side]) : std::nullopt;
      const GraphNode *mean = epsilon ? madeForOne(added->inputs[1 - side], "ReduceMean") : nullptr;
      if (!mean || *epsilon < 0 || !isSquare(mean->inputs[0], data) || isCentred(data))
        continue;
      if (size_t axes = lastAxes(*mean))
        return Norm{data, noTensor, *epsilon, axes};
    }
    return std::nullopt;
  }

  /// Whether `id` is a tensor without its mean, which makes it a layer normalisation.
  bool isCentred(TensorId id) const {
    const GraphNode *difference = origins.made(id, "Sub");
    const GraphNode *mean =
        difference ? origins.made(difference->inputs[1], "ReduceMean") : nullptr;
    return mean && mean->inputs[0] == difference->inputs[0];
  }

  bool isSquare(TensorId id, TensorId data) const {
    if (const GraphNode *power = madeForOne(id, "Pow"))
      return power->inputs[0] == data && origins.isNumber(power->inputs[1], 2);
    const GraphNode *product = madeForOne(id, "Mul");
    return product && product->inputs[0] == data && product->inputs[1] == data;
  }

  /// The number of axes that `mean` reduces if they are the last ones and stay as ones; else 0.
  size_t lastAxes(const GraphNode &mean) const {
    if (mean.inputs.size() != 2 || !integerAttribute(mean, "keepdims", 1))
      return 0;
    const GraphTensor &given = tensor(mean.inputs[1]);
    if (given.role != TensorRole::Constant || !given.data)
      return 0;
    const auto all = static_cast<int64_t>(rank(mean.inputs[0]));
    std::vector<int64_t> axes = folding::integersOf(*given.data);
    for (int64_t &axis : axes)
      axis += axis < 0 ? all : 0;
    llvm::sort(axes);
    std::vector<int64_t> last(axes.size());
    std::iota(last.begin(), last.end(), all - static_cast<int64_t>(axes.size()));
    return axes == last ? axes.size() : 0;
  }

  /// Whether the data, the scale and the result have one type, and the scale has the shape of the
  /// normalised axes, which do not count samples.
  bool isWellTyped(const Norm &found, TensorId result) const {
    const GraphTensor &data = tensor(found.data), &scale = tensor(found.scale);
    const ArrayRef<Dim> last = ArrayRef<Dim>(data.shape).take_back(found.axes);
    for (const GraphTensor *each : {&data, &scale, &tensor(result)})
      if (each->type != data.type || each->dynamic || each->container != Container::None)
        return false;
    return isFloating(data.type) && last == ArrayRef<Dim>(scale.shape) &&
           all_of(last, [](const Dim &dim) { return dim.perSample == 0; }) &&
           data.shape == tensor(result).shape;
  }
};

} // namespace

void fuseNormalizations(Graph &graph) {
  const Origins origins(graph);
  const NormFinder finder(graph, origins);
  std::vector<std::pair<GraphNode *, Norm>> found;
  for (GraphNode &node : graph.nodes)
    if (auto norm = finder.find(node))
      found.emplace_back(&node, *norm);
  for (auto &[node, norm] : found) {
    node->op = "RMSNormalization";
    node->inputs = {norm.data, norm.scale};
    node->attributes.clear();
    node->attributes["axis"] = -static_cast<int64_t>(norm.axes);
    node->attributes["epsilon"] = norm.epsilon;
  }
}

} // namespace heterplan
