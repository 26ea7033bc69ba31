// The indices of a stage's lookups, computed from the inputs of the model alone, so that rows can
// be fetched before the forward pass, which computes them again.
#pragma once

#include "codegen/Scope.h"
#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

struct LookupIndices {
  std::string body;                     // of indices()
  std::vector<std::string> expressions; // what it returns, one for each lookup
  bool usesHelpers = false;             // of heterplan_runtime.operators
};

/// Statements that compute the indices of `lookups`, with `inputs` as arguments. Fails with
/// NotGeneratable where PyTorch lacks an operator.
llvm::Expected<LookupIndices> lookupIndices(const Graph &graph, const GraphUse &use,
                                            llvm::ArrayRef<TensorId> inputs,
                                            llvm::ArrayRef<TableLookup> lookups);

} // namespace heterplan
