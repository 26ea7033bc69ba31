// Computes nodes whose inputs are known: shape arithmetic, masks, ranges. Types and dimensions of
// the outputs are inferred beforehand, so that each operator here only moves or computes values.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include <optional>

namespace heterplan {

/// Largest value that is computed at import, in bytes.
constexpr int64_t largestFolded = int64_t(16) << 20;

/// Whether folding knows the operator of `node` at all.
bool canFold(const GraphNode &node);

/// Whether folding `op` needs the value of input `input`, not its type alone.
bool foldReads(llvm::StringRef op, size_t input);

/// The value of output `output` of `node`, of type and dimensions `type`. Nothing where the
/// operator, the element type or an operand is not one that folding handles; that is never an
/// error, since the node can be kept.
std::optional<TensorData> fold(const GraphNode &node, llvm::ArrayRef<KnownInput> inputs,
                               const TensorType &type, size_t output);

} // namespace heterplan
