// Groups the operators of a Graph into layers, the units of placement, and states what each layer
// costs per sample; tells which operators have a cost formula of their own.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// One layer for each heavy operator. A cheap operator joins the layer of its last producer; one
/// that depends on no layer, or normalises a stream that goes on, joins its first user. Layers are
/// in topological order and cover each node once; the result verifies. Deterministic; near-linear
/// in the size of the graph.
llvm::Expected<LayerGraph> groupLayers(const Graph &graph);

struct CoverageRow {
  std::string op;
  int nodes = 0;
  bool costed = false; // by a formula of its own; otherwise counted as cheap elementwise work
  std::string how;     // "formula", "sum of its body", "default elementwise", "profile only"
};

/// One row for each operator that occurs, by name.
std::vector<CoverageRow> coverage(const Graph &graph);

} // namespace heterplan
