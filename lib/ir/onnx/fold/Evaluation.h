// Shapes of all tensors at one batch size, by the operator schemas, with shape arithmetic computed
// along the way. The importer evaluates a model at several batch sizes and compares.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include <deque>
#include <map>

namespace heterplan {

/// An operand that has the batch of the export baked in, as Rebatching found it.
struct Repair {
  enum Kind {
    Repeat, // its axis has one row and must have as many as the reference
    Narrow, // it is a constant whose rows are equal: one of them is left, which broadcasts
    Number, // it indexes the samples of the example: a row for each sample, `step` apart
    Spread, // it is the target of the node, which becomes an Expand to the shape of its result
    Drop,   // it is left out: the shape of the result says the same
  };
  Kind kind = Repeat;
  int node = 0; // GraphNode::number
  size_t operand = 0, axis = 0;
  size_t reference = 0, referenceAxis = 0; // another operand of the node
  int64_t step = 0;
  bool operator==(const Repair &) const = default;
};

/// Moves only: `values` points into `computed`.
struct GraphEvaluation {
  GraphEvaluation() = default;
  GraphEvaluation(GraphEvaluation &&) = default;
  GraphEvaluation &operator=(GraphEvaluation &&) = default;

  std::vector<TensorType> types;          // by tensor
  std::vector<const TensorData *> values; // by tensor; null where not known
  std::deque<TensorData> computed;        // owns the values that are not in the file
  std::vector<Repair> repairs;            // in the order of the nodes
  /// By tensor: the value supposes that a shape which depends on values is as large as it can be.
  std::vector<bool> assumed;
  struct Count {
    int64_t count = 0;
    bool bound = false;
  };
  std::map<int, Count> iterations; // of loops, by the number of the node
};

/// Inputs of an evaluation.
struct Setting {
  std::vector<llvm::SmallVector<int64_t, 4>> inputs; // dimensions of each graph input
  const std::vector<bool> *trained = nullptr;        // by tensor: its value is not a constant
  /// For a model whose batch is a number in the file: its evaluation at that batch, that number,
  /// and the batch of this evaluation. Reshape and Expand may have it baked into constants.
  const GraphEvaluation *asWritten = nullptr;
  int64_t batchAsWritten = 0;
  int64_t batch = 0;
  /// Set where a Reshape fails that would hold at another batch as written: that batch.
  int64_t *bakedBatch = nullptr;
};

/// Fails with UnknownShape where a shape that is used is not determined, with AbsurdSize where one
/// overflows, with MalformedModel where a schema refuses.
llvm::Expected<GraphEvaluation> evaluate(const ModelFile &file, const Setting &setting);

} // namespace heterplan
