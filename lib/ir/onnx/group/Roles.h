// Which initializers are trained, which are state, which are constants; and which tensors carry
// gradients.
#pragma once

#include "ir/onnx/read/ModelFile.h"

namespace heterplan {

/// The role of each tensor that has role Constant in `file`: Parameter, Buffer or Constant, by how
/// it is used. Decided from the structure and the shapes alone; values are looked at only to tell
/// additive masks (zeros and large negative numbers) from biases, and tables of sines from learned
/// ones. `notes` gets what had to be assumed.
std::vector<TensorRole> decideRoles(const ModelFile &file, std::vector<std::string> &notes);

/// Makes Frozen the parameters whose name matches a pattern of `freeze`, and Parameter the floating
/// initializers that match one of `train`, which counts where both match. Fails with Usage where a
/// pattern matches nothing.
llvm::Error applyPatterns(const ModelFile &file, llvm::ArrayRef<std::string> freeze,
                          llvm::ArrayRef<std::string> train, std::vector<TensorRole> &roles);

/// Adds to `notes` what a file without statements of the module leaves open: which trained
/// parameters have names of the exporter, and, unless an option says it, which are frozen.
void noteUnstated(const ModelFile &file, bool isSaid, llvm::ArrayRef<TensorRole> roles,
                  std::vector<std::string> &notes);

/// Sets `differentiable` on every tensor of `graph`.
void markDifferentiable(Graph &graph);

/// Whether `op` only gives another view of the values of its first input.
bool isView(llvm::StringRef op);

} // namespace heterplan
