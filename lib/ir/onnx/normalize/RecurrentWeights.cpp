#include "ir/onnx/normalize/RecurrentWeights.h"

#include "ir/ModuleWeights.h"
#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>
#include <vector>

using namespace llvm;

namespace heterplan {

namespace {

/// Elements [begin, end) of a stored tensor, in row-major order.
struct Piece {
  TensorId source = noTensor;
  int64_t begin = 0, end = 0;
};
/// The elements of a tensor, one piece after the other.
using Pieces = std::vector<Piece>;
/// The weights of a direction are joined from at most as many pieces as it has gates; more pieces
/// than this are none that an exporter makes.
constexpr size_t mostPieces = 64;

/// A slice along one axis: elements [begin, end) of that axis.
struct Range {
  size_t axis = 0;
  int64_t begin = 0, end = 0;
};

class WeightFinder {
public:
  explicit WeightFinder(Graph &graph) : graph(graph) {}

  void run() {
    for (GraphNode &node : graph.nodes) {
      if (hasKernel(node))
        replaceWeights(node);
      else if (auto pieces = movedPieces(node); pieces && pieces->size() <= mostPieces)
        known[node.outputs[0]] = std::move(*pieces);
    }
  }

private:
  Graph &graph;
  DenseMap<TensorId, Pieces> known; // what nodes make of weights by moving their elements

  static TensorId input(const GraphNode &node, size_t index) {
    return index < node.inputs.size() ? node.inputs[index] : noTensor;
  }

  // ---- which nodes

  /// Whether PyTorch has a kernel for the node: no peepholes, clipping, other functions or
  /// sequences of several lengths.
  static bool hasKernel(const GraphNode &node) {
    if (!node.domain.empty() || gatesOfModule(node.op).empty() || node.inputs.size() < 3 ||
        node.inputs.size() > firstModuleWeight)
      return false;
    const double *clip = findAttribute<double>(node, "clip");
    bool resetsAfter = node.op != "GRU" || integerAttribute(node, "linear_before_reset") == 1;
    return input(node, 4) == noTensor && input(node, 7) == noTensor && (!clip || *clip == 0) &&
           integerAttribute(node, "input_forget") == 0 && resetsAfter && hasUsualFunctions(node);
  }

  static bool hasUsualFunctions(const GraphNode &node) {
    const auto *named = findAttribute<std::vector<std::string>>(node, "activations");
    if (!named)
      return true;
    std::vector<StringRef> usual = {"sigmoid", "tanh"};
    if (node.op == "LSTM")
      usual.push_back("tanh");
    if (node.op == "RNN")
      usual = {!named->empty() && StringRef(named->front()).equals_insensitive("relu") ? "relu"
                                                                                       : "tanh"};
    for (size_t i = 0; i < named->size(); ++i)
      if (!usual[i % usual.size()].equals_insensitive((*named)[i]))
        return false;
    return true;
  }

  // ---- what a tensor consists of

  bool isFixed(TensorId id) const {
    const GraphTensor &tensor = graph.tensors[id];
    return !tensor.dynamic && tensor.container == Container::None &&
           all_of(tensor.shape, [](Dim dim) { return dim.perSample == 0 && dim.fixed > 0; });
  }

  int64_t extent(TensorId id, size_t axis) const { return graph.tensors[id].shape[axis].fixed; }

  /// The product of the dimensions from `axis` on.
  int64_t elements(TensorId id, size_t axis = 0) const {
    int64_t count = 1;
    for (Dim dim : ArrayRef<Dim>(graph.tensors[id].shape).drop_front(axis))
      count *= dim.fixed;
    return count;
  }

  /// Whether what lies along `axis` lies in one run: the axes before it have one element.
  bool isOuter(TensorId id, size_t axis) const {
    return axis < graph.tensors[id].shape.size() &&
           all_of(ArrayRef<Dim>(graph.tensors[id].shape).take_front(axis),
                  [](Dim dim) { return dim.fixed == 1; });
  }

  std::optional<Pieces> piecesOf(TensorId id) const {
    if (id == noTensor || !isFixed(id))
      return std::nullopt;
    if (isWeight(graph.tensors[id].role))
      return Pieces{{id, 0, elements(id)}};
    auto found = known.find(id);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }

  /// The pieces of the result of `node`; nothing if it does more than move elements of weights.
  std::optional<Pieces> movedPieces(const GraphNode &node) const {
    if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0] == noTensor ||
        node.inputs.empty() || node.inputs[0] == noTensor)
      return std::nullopt;
    if (node.op == "Concat")
      return joined(node);
    if (node.op == "Slice")
      return sliced(node);
    bool moves = node.op == "Unsqueeze" || node.op == "Squeeze" || node.op == "Reshape" ||
                 node.op == "Flatten" || node.op == "Identity";
    return moves ? piecesOf(node.inputs[0]) : std::nullopt;
  }

  std::optional<Pieces> joined(const GraphNode &node) const {
    int64_t axis = integerAttribute(node, "axis");
    axis += axis < 0 ? static_cast<int64_t>(graph.tensors[node.outputs[0]].shape.size()) : 0;
    Pieces result;
    for (TensorId id : node.inputs) {
      auto pieces = piecesOf(id);
      if (!pieces || axis < 0 || !isOuter(id, static_cast<size_t>(axis)))
        return std::nullopt;
      append_range(result, *pieces);
    }
    return result;
  }

  std::optional<Pieces> sliced(const GraphNode &node) const {
    auto whole = piecesOf(node.inputs[0]);
    auto range = rangeOf(node);
    if (!whole || !range || !isOuter(node.inputs[0], range->axis))
      return std::nullopt;
    int64_t inner = elements(node.inputs[0], range->axis + 1);
    return part(*whole, range->begin * inner, range->end * inner);
  }

  /// The integer of a constant of one element.
  std::optional<int64_t> integer(TensorId id) const {
    if (id == noTensor || graph.tensors[id].role != TensorRole::Constant || !graph.tensors[id].data)
      return std::nullopt;
    const TensorData &data = *graph.tensors[id].data;
    if (data.type != DataType::Int64 || data.bytes.size() != sizeof(int64_t))
      return std::nullopt;
    return folding::loadInteger(data, 0);
  }

  /// The range of a Slice with step 1 along one axis.
  std::optional<Range> rangeOf(const GraphNode &node) const {
    auto begin = integer(input(node, 1)), end = integer(input(node, 2));
    auto axis = input(node, 3) == noTensor ? std::optional<int64_t>(0) : integer(input(node, 3));
    auto step = input(node, 4) == noTensor ? std::optional<int64_t>(1) : integer(input(node, 4));
    auto rank = static_cast<int64_t>(graph.tensors[node.inputs[0]].shape.size());
    if (!begin || !end || !axis || step != 1 || *axis < -rank || *axis >= rank)
      return std::nullopt;
    Range range{static_cast<size_t>(*axis < 0 ? *axis + rank : *axis), 0, 0};
    int64_t size = extent(node.inputs[0], range.axis);
    auto place = [&](int64_t index) {
      return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
    };
    range.begin = place(*begin);
    range.end = place(*end);
    return range.begin < range.end ? std::optional(range) : std::nullopt;
  }

  /// Elements [begin, end) of `pieces`.
  static Pieces part(const Pieces &pieces, int64_t begin, int64_t end) {
    Pieces result;
    int64_t at = 0; // of the piece
    for (const Piece &piece : pieces) {
      int64_t length = piece.end - piece.begin;
      int64_t first = std::max(begin - at, int64_t(0)), last = std::min(end - at, length);
      if (first < last)
        result.push_back({piece.source, piece.begin + first, piece.begin + last});
      at += length;
    }
    return result;
  }

  // ---- parameters of a module

  /// The tensor whose gates `pieces` are, each `size` elements long and in ONNX's order.
  TensorId gatesOf(ArrayRef<int> gates, const Pieces &pieces, int64_t size) const {
    const TensorId source = pieces.empty() ? noTensor : pieces[0].source;
    if (source == noTensor || elements(source) != static_cast<int64_t>(gates.size()) * size)
      return noTensor;
    for (size_t gate = 0; gate < gates.size(); ++gate) {
      int64_t at = static_cast<int64_t>(gate) * size, expected = gates[gate] * size;
      for (const Piece &piece : part(pieces, at, at + size)) {
        if (piece.source != source || piece.begin != expected)
          return noTensor;
        expected = piece.end;
      }
      if (expected != (gates[gate] + 1) * size)
        return noTensor;
    }
    return source;
  }

  /// The parameter whose gates are elements [begin, begin + gates · rows · width) of `pieces`. It
  /// is a matrix of that width or, for width 0, a vector.
  TensorId parameter(ArrayRef<int> gates, const Pieces &pieces, int64_t begin, int64_t rows,
                     int64_t width) const {
    const int64_t size = rows * std::max<int64_t>(width, 1);
    const int64_t length = size * static_cast<int64_t>(gates.size());
    TensorId id = gatesOf(gates, part(pieces, begin, begin + length), size);
    if (id == noTensor)
      return noTensor;
    const Shape &shape = graph.tensors[id].shape;
    bool fits = width ? shape.size() == 2 && shape[1].fixed == width : shape.size() == 1;
    return fits ? id : noTensor;
  }

  void replaceWeights(GraphNode &node) const {
    auto weights = parametersOf(node);
    if (!weights)
      return;
    for (size_t index : {size_t(1), size_t(2), size_t(3)})
      if (index < node.inputs.size())
        node.inputs[index] = noTensor;
    node.inputs.resize(firstModuleWeight, noTensor);
    node.inputs.append(weights->begin(), weights->end());
  }

  /// The parameters that W, R and B of `node` are made of, in the order of ModuleWeights.h.
  std::optional<std::vector<TensorId>> parametersOf(const GraphNode &node) const {
    const TensorId b = input(node, 3);
    auto w = piecesOf(node.inputs[1]), r = piecesOf(node.inputs[2]);
    std::optional<Pieces> biases = b == noTensor ? Pieces() : piecesOf(b);
    if (!w || !r || !biases || graph.tensors[node.inputs[2]].shape.size() != 3 ||
        graph.tensors[node.inputs[1]].shape.size() != 3)
      return std::nullopt;
    ArrayRef<int> gates = gatesOfModule(node.op);
    const auto count = static_cast<int64_t>(gates.size());
    const int64_t directions = extent(node.inputs[2], 0), hidden = extent(node.inputs[2], 2);
    const int64_t width = extent(node.inputs[1], 2);
    std::vector<TensorId> result;
    for (int64_t d = 0; d < directions; ++d) {
      result.push_back(parameter(gates, *w, d * count * hidden * width, hidden, width));
      result.push_back(parameter(gates, *r, d * count * hidden * hidden, hidden, hidden));
      if (b != noTensor)
        for (int64_t half : {int64_t(0), int64_t(1)})
          result.push_back(parameter(gates, *biases, (2 * d + half) * count * hidden, hidden, 0));
    }
    return is_contained(result, noTensor) ? std::nullopt : std::optional(result);
  }
};

} // namespace

void takeModuleWeights(Graph &graph) { WeightFinder(graph).run(); }

} // namespace heterplan
