// Places where stages may begin in a model whose devices would else have slices of all tensors
// there.
#pragma once

#include "ir/LayerGraph.h"

#include "llvm/ADT/StringSet.h"

namespace heterplan {

/// Cuts (positions of layers) where devices should have whole tensors, so that stages can begin.
/// `divided` is `whole` with its shards. It should have a cut near each sixteenth of its
/// operations. Else the narrowest one of `whole` is chosen, of those that are no wider than their
/// neighbours.
std::vector<int> missingBoundaries(const LayerGraph &whole, const LayerGraph &divided);

struct GraphWithBoundaries {
  Graph graph;
  llvm::StringSet<> nodes; // the operators at the cuts; every device computes them as a whole
};

/// `graph` with an operator Identity at the first of `cuts` that a tensor crosses. Consumers behind
/// the cut take its result, which has the number and the name of the tensor; those before it take a
/// new one. Parameters lose their values.
GraphWithBoundaries withBoundaries(const Graph &graph, const LayerGraph &whole,
                                   llvm::ArrayRef<int> cuts);

} // namespace heterplan
