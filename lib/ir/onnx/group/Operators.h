// The cost of one operator, per sample, and whether it passes gradients on. One table,
// Operators.def; what is not in it counts as cheap elementwise work.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/onnx/group/GraphFacts.h"

namespace heterplan {

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
