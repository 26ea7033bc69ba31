// The cost of one operator, per sample, and whether it passes gradients on. One table,
// Operators.def; what is not in it counts as cheap elementwise work.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"

namespace heterplan {

/// The producers and consumers of a graph's operands; computed once.
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

/// Costs of one node for a batch of one.
struct OperatorCost {
  LayerKind kind = LayerKind::Elementwise;
  bool heavy = false;
  bool opaque = false; // of an operator of which nothing is known: no figure below is given
  double forwardFlops = 0;
  double backwardFlops = 0;
  double forwardBytes = 0;
  double backwardBytes = 0;
  double workspaceBytes = 0;
  double convolutionBytes = 0; // Layer::convolutionBytes
  double autocastForward = 0, autocastBackward = 0, autocastWorkspace = 0; // bytes, likewise
  double kernels = 0;                   // launched by a forward pass
  ProductShape product;                 // of a product
  bool channelsLast = false;            // KernelWork::channelsLast
  llvm::SmallVector<TensorId, 4> keeps; // tensors kept for the backward pass
  double keepsBytes = 0;                // kept besides tensors: indices, gates
};

OperatorCost costOf(const GraphNode &node, const GraphFacts &facts);

/// Whether Operators.def lists the operator of `node`.
bool hasFormula(const GraphNode &node);

/// Whether floating results of `node` carry the gradients of floating operands; custom operators
/// are taken to.
bool passesGradients(const GraphNode &node);

} // namespace heterplan
