// Topological orders of units whose cuts are likely to be narrow.
#pragma once

#include "search/problem/UnitGraph.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace heterplan {

/// A depth-first order: what a unit reads comes directly before it, branch by branch. `pick`
/// changes the order of the branches.
std::vector<int> depthFirst(const UnitGraph &graph,
                            llvm::function_ref<void(std::vector<int> &)> pick);

/// The order of a beam search, unit by unit. It keeps the best sets of first units of each size:
/// those with the least width of cuts on average over their work. A set that two orders make is
/// kept once.
std::vector<int> beamSearch(const UnitGraph &graph);

} // namespace heterplan
