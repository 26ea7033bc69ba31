// Exporters bake the batch of their example into constants: shapes of Reshape and Expand, repeats
// of Tile, a class token or an initial state of one row, indices of its samples. Here such
// operands are mended while a model is evaluated at another batch, and what the graph must say in
// their place is recorded.
#pragma once

#include "ir/onnx/batch/SampleRows.h"
#include "ir/onnx/fold/Evaluation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace heterplan {

class Rebatching {
public:
  /// All of them outlive this.
  Rebatching(const ModelFile &file, const Setting &setting, GraphEvaluation &result);

  /// Before inference of `node`: mends `inputs`, the types and values of its operands.
  void mendOperands(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);

  /// Afterwards: the dimensions that a Reshape to a constant shape has at this batch.
  /// MalformedModel where it does not keep the number of elements.
  llvm::Error mendResults(const GraphNode &node, llvm::MutableArrayRef<TensorType> outputs);

private:
  const ModelFile &file;
  const Setting &setting;
  GraphEvaluation &result;
  llvm::DenseSet<int> outermost; // numbers of the nodes that are in no body
  /// By tensor, where above 1: along the batch axis, index = (run·N + sample)·k + rest.
  llvm::DenseMap<TensorId, int64_t> runs;
  std::deque<TensorType> types;  // of mended operands
  std::deque<TensorData> values; // likewise
  ConstantValues constants;

  /// The axis along which `now` differs from `before`, or as many as there are.
  static size_t grownAxis(llvm::ArrayRef<int64_t> before, llvm::ArrayRef<int64_t> now);
  const TensorData *constantOperand(const GraphNode &node, size_t index) const;
  const TensorType *typeBefore(const GraphNode &node, size_t index) const;
  llvm::StringRef valuesOf(const GraphNode &node, size_t index);
  bool isUniform(const GraphNode &node, size_t index, size_t axis, int64_t rows);
  void mendTarget(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendSizes(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendConcat(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendEqual(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendBroadcast(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void resize(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs, size_t operand,
              size_t axis, size_t reference, size_t referenceAxis);
  void growTarget(const GraphNode &node, llvm::MutableArrayRef<int64_t> target);
  void carryRuns(const GraphNode &node);
  void setDim(KnownInput &input, size_t axis, int64_t size);
  // Of RebatchedIndices.cpp:
  void mendIndices(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendScatter(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
  void mendScatterElements(const GraphNode &node, llvm::MutableArrayRef<KnownInput> inputs);
};

/// Says in `graph`, whose shapes are set, what `repairs` recorded: operands of one row are repeated
/// by an Expand, constants of equal rows keep one, indices of samples are computed.
void applyRepairs(Graph &graph, llvm::ArrayRef<Repair> repairs);

} // namespace heterplan
