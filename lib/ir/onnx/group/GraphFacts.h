// Facts about the tensors of a graph that costs of operators depend on: which ones are weights,
// views, in 16 bits under autocast, and channels last.
#pragma once

#include "ir/Graph.h"

#include <vector>

namespace heterplan {

/// Facts about each tensor of a graph; computed once.
class GraphFacts {
public:
  explicit GraphFacts(const Graph &graph);

  const Graph &graph;
  /// By tensor: computed from parameters (trained or frozen) and constants alone, with at least one
  /// parameter.
  std::vector<bool> weight;
  /// By tensor: the tensor whose storage it shows (itself where it is no view).
  std::vector<TensorId> storage;
  /// By tensor: autocast computes it in 16 bits.
  std::vector<bool> half;
  /// By tensor: a matrix product, to which cuBLAS adds a bias on its way out.
  std::vector<bool> product;
  /// By tensor: images that lie channels last, whatever the format of the plan: a transposition
  /// moved their channels from the last dimension to the second one, and moves no bytes.
  std::vector<bool> channelsLast;

  /// Elements and bytes for a batch of one; nothing for an operand that is left out.
  double elements(TensorId id) const;
  double bytes(TensorId id) const;
  /// Bytes of a tensor in 16 bits where autocast uses them.
  double autocastBytes(TensorId id) const;

private:
  bool widens(const GraphNode &node, size_t index) const;
  void addHalves(const GraphNode &node);
  void addFormat(const GraphNode &node);
};

/// How autocast runs an operator: in 16 bits, in fp32, or in the widest type of its operands.
enum class AutocastRule { Half, Single, Widest };
AutocastRule autocastRule(const GraphNode &node);

} // namespace heterplan
