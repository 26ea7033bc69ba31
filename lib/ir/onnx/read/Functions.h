// Model-local functions are gone before anything else looks at a model: each call becomes the nodes
// of the function, named after the call.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace onnx {
class ModelProto;
}

namespace heterplan {

/// Replaces the calls of the functions of `model`, in its graph and in subgraphs, and drops the
/// functions. Tensors and nodes inside get the name of the call before their own; parameters keep
/// theirs. CyclicGraph where a function calls itself, MalformedModel where it is called with too
/// many operands, UnsupportedOperator where it relies on another version of an operator than the
/// model; AbsurdSize where what comes out is
/// absurdly large; DuplicateName where two functions answer one call.
llvm::Error inlineFunctions(onnx::ModelProto &model, llvm::StringRef path);

} // namespace heterplan
