// Values that are not in the model: how a parameter starts, and which integers an input of indices
// may hold. Told from the operators that use them.
#pragma once

#include "codegen/Scope.h"

namespace heterplan {

/// "kaiming", "ones", "zeros" or "normal" (standard deviation 0.02, for embeddings).
const char *initializerOf(const Graph &graph, const GraphUse &use, TensorId tensor);

/// The smallest table that the integer input `tensor` is an index into, or 0 where it is none.
int64_t indexBound(const Graph &graph, const GraphUse &use, TensorId tensor);

} // namespace heterplan
