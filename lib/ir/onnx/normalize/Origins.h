// The origin and the uses of each tensor of a graph, for fusions of several operators into one.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <vector>

namespace heterplan {

/// The producer, the uses and the parameters of each tensor of `graph`, whose nodes must stay in
/// their places.
class Origins {
public:
  explicit Origins(const Graph &graph);

  /// The node that computes `id`; null if it is no operator `op` of ONNX with all its operands.
  const GraphNode *made(TensorId id, llvm::StringRef op) const;
  /// Whether `times` operands of nodes whose results are used, or results of the model, are `id`.
  bool isUsed(TensorId id, int times) const { return uses[id] == times; }
  /// Whether `id` is computed from the values of parameters.
  bool isTrained(TensorId id) const { return trained[id]; }

  /// The value of a floating-point constant of one element.
  std::optional<double> numberOf(TensorId id) const;
  bool isNumber(TensorId id, double value) const { return numberOf(id) == value; }

private:
  const Graph &graph;
  std::vector<const GraphNode *> producer;
  std::vector<int> uses;
  std::vector<bool> trained;
};

} // namespace heterplan
