// Tensors of a graph whose elements follow from their index. Masks of long sequences are such
// tensors, and too large for their elements to be computed at import.
#pragma once

#include "ir/onnx/fold/Evaluation.h"
#include "ir/onnx/fold/IndexedValues.h"

#include <map>
#include <optional>

namespace heterplan {

/// Works out tensors of one evaluation of a graph.
class IndexedTensors {
public:
  /// Both outlive this, and the nodes of `graph` stay in their places.
  IndexedTensors(const Graph &graph, const GraphEvaluation &evaluation);

  /// The elements of `id`; nothing where they are not known to follow from their index.
  std::optional<IndexedValues> valuesOf(TensorId id);
  /// Whether the last axes of `id` are `length` queries and `length` keys, and its elements are
  /// `shown` exactly for the keys up to the query's own.
  bool isTriangle(TensorId id, int64_t length, bool shown);

private:
  friend class IndexedOperator;

  const Sizes *dimsOf(TensorId id) const;
  std::optional<IndexedValues> compute(TensorId id);

  const GraphEvaluation &evaluation;
  std::vector<const GraphNode *> producers; // by tensor
  std::map<TensorId, std::optional<IndexedValues>> known;
  int depth = 0; // of the operators that are being worked out
};

} // namespace heterplan
