// One spelling for all operator sets: before anything else reads a model, nodes of older and newer
// versions are rewritten to the form that they have in operator set 25 (attributes that became
// inputs, defaults that changed, operators that were renamed), and fused operators of com.microsoft
// to the operators that they fuse. Whoever comes later knows one form of each operator.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/Support/Error.h"

#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace heterplan {

/// The operator set whose forms the nodes have after normalization, with one addition: Softmax,
/// LogSoftmax and Hardmax of sets below 13 carry the attribute `flattened`, 1: the axes from `axis`
/// on count as one.
constexpr int64_t canonicalOpset = 25;

/// Checks each node of `model`, subgraphs included, against its operator's signature in the version
/// that the model imports, and rewrites it. Rewriting adds nodes before the one that needs them;
/// their names start with its name. MalformedModel where a node does not keep the signature or the
/// model imports no operator set; UnsupportedOperator where the version cannot be rewritten or is
/// newer than canonicalOpset. Functions of the model are to be inlined before.
llvm::Error normalize(onnx::ModelProto &model, const Location &place);

} // namespace heterplan
