// LSTM, GRU and RNN whose weights are the parameters of a PyTorch module. ONNX packs the weights of
// both directions into one tensor and orders the gates in its own way, so exporters slice and join
// each parameter. PyTorch's kernels take the parameters themselves. A node of the Graph may hold
// them in their place: inputs W, R and B are left out then.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// The first of the inputs that are parameters of a module: for each direction `weight_ih`,
/// `weight_hh` and, if the module has biases, `bias_ih` and `bias_hh`. No input of ONNX's operators
/// has this place.
constexpr size_t firstModuleWeight = 8;

/// Whether `node` is an LSTM, GRU or RNN that takes the parameters of a module.
inline bool takesModuleWeights(const GraphNode &node) {
  return node.domain.empty() && (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") &&
         node.operands().size() > firstModuleWeight;
}

/// The parameters that `node` takes from a module; empty if it takes ONNX's weights.
inline llvm::ArrayRef<TensorId> moduleWeights(const GraphNode &node) {
  return takesModuleWeights(node) ? node.operands().drop_front(firstModuleWeight)
                                  : llvm::ArrayRef<TensorId>();
}

/// The place in PyTorch's order of each of ONNX's gates. PyTorch's modules have i, f, g, o (LSTM)
/// and r, z, n (GRU); ONNX has i, o, f, c and z, r, h. Empty for other operators.
llvm::ArrayRef<int> gatesOfModule(llvm::StringRef op);

} // namespace heterplan
