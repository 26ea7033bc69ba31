#include "ir/onnx/batch/BatchLayout.h"

#include "ir/onnx/batch/Mixing.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

constexpr int64_t unclear = 0;
constexpr int64_t largestRun = int64_t(1) << 45;

/// Axis that grows with the batch; -1 where there is none, -2 where there are several or it has a
/// fixed part.
int batchAxis(ArrayRef<Dim> shape) {
  int axis = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].perSample)
      continue;
    if (axis != -1 || shape[i].fixed)
      return -2;
    axis = static_cast<int>(i);
  }
  return axis;
}

int64_t productBefore(ArrayRef<Dim> shape, int axis) {
  int64_t product = 1;
  for (int i = 0; i < axis; ++i)
    product *= std::max<int64_t>(1, std::min(shape[i].fixed, largestRun / product));
  return product;
}

bool keepsOrder(StringRef op) {
  static const StringSet<> ops = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  return ops.count(op) != 0;
}

/// Along the batch axis, index = (run·N + sample)·k + rest with run in [0, runs). Samples are
/// neighbours where runs is 1. What comes before the batch in row-major order, productBefore·runs,
/// is the same on both sides of a Reshape.
class Layout {
public:
  explicit Layout(const Graph &graph) : graph(graph), runs(graph.tensors.size(), 1) {}

  std::vector<bool> run() {
    for (const GraphNode &node : graph.nodes)
      for (TensorId id : node.outputs)
        if (id != noTensor)
          runs[id] = keepsOrder(node.op) ? reshaped(node.inputs[0], id) : carried(node, id);
    std::vector<bool> result(graph.tensors.size());
    for (size_t id = 0; id < result.size(); ++id) {
      int axis = batchAxis(graph.tensors[id].shape);
      result[id] = axis == -1 || (axis >= 0 && runs[id] == 1);
    }
    return result;
  }

private:
  const Graph &graph;
  std::vector<int64_t> runs;

  int64_t perSample(TensorId id) const {
    int axis = batchAxis(graph.tensors[id].shape);
    return axis < 0 ? axis : graph.tensors[id].shape[axis].perSample;
  }

  int64_t reshaped(TensorId from, TensorId to) const {
    const Shape &before = graph.tensors[from].shape, &after = graph.tensors[to].shape;
    int source = batchAxis(before), target = batchAxis(after);
    if (source < 0 || target < 0 || runs[from] == unclear)
      return target == -1 ? 1 : unclear;
    int64_t outer = productBefore(before, source), inner = productBefore(after, target);
    if (runs[from] > largestRun / outer || outer * runs[from] % inner)
      return unclear;
    return outer * runs[from] / inner;
  }

  /// Other operators leave the batch axis as it is, unless they change its length (Concat, Slice or
  /// Tile along it).
  int64_t carried(const GraphNode &node, TensorId to) const {
    int64_t most = 1;
    for (TensorId id : node.inputs) {
      if (id == noTensor || batchAxis(graph.tensors[id].shape) == -1)
        continue;
      if (runs[id] == unclear || perSample(id) != perSample(to))
        return unclear;
      most = std::max(most, runs[id]);
    }
    return most;
  }
};

/// Whether `node` combines along the batch axis of its first operand.
bool mixesAxis(const Graph &graph, const GraphNode &node) {
  if (node.inputs.empty() || node.inputs[0] == noTensor)
    return false;
  int axis = batchAxis(graph.tensors[node.inputs[0]].shape);
  return axis >= 0 && combinesAlong(graph, node, axis);
}

bool growsWithBatch(const Graph &graph, TensorId id) {
  return id != noTensor && batchAxis(graph.tensors[id].shape) != -1;
}

} // namespace

std::vector<int> mixingNodes(const Graph &graph) {
  static const StringSet<> shapesOnly = {"Shape", "Size"};
  std::vector<int> result;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    bool reads = false, writes = false;
    for (TensorId id : node.inputs)
      reads = reads || growsWithBatch(graph, id);
    for (TensorId id : node.outputs)
      writes = writes || growsWithBatch(graph, id);
    bool mixes = reads && (!writes || mixesAxis(graph, node)) && !shapesOnly.count(node.op);
    if (mixes)
      result.push_back(static_cast<int>(i));
  }
  return result;
}

std::vector<bool> splitsBySample(const Graph &graph) { return Layout(graph).run(); }

} // namespace heterplan
