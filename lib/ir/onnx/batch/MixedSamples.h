// Refuses to plan a model whose samples depend on each other: replicas that have each a part of the
// batch would train something else.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heterplan {

/// Fails with NotSupported, located at an operator of the model in `path` that combines samples, or
/// is not proven to compute each by itself. Batch normalisation may combine them: replicas sum its
/// statistics. Operators of other domains, of which
/// nothing is known, are accepted.
llvm::Error checkSamplesApart(const Graph &graph, llvm::StringRef path);

} // namespace heterplan
