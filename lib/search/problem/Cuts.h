// The places at which a model may be cut into stages, and those of them that a search examines.
#pragma once

#include "search/problem/Problem.h"

#include <utility>
#include <vector>

namespace heterplan {

/// Layers that constraints keep apart, the earlier first: neighbours among the layers of a
/// separation, and among those that are pinned to unequal types.
std::vector<std::pair<int, int>> separatedPairs(const Problem &problem);

/// By position: whether a stage may end there. A cut parts neither a sparse table nor layers that
/// are to be together.
std::vector<bool> allowedCuts(const Problem &problem);

/// As many cuts as every strategy can do with; all where few blocks remain once stages are fitted.
std::vector<int> narrowCuts(const Problem &problem);

/// Every position where a stage may end; what `narrowCuts` are where stages are fitted.
std::vector<int> everyCut(const Problem &problem);

/// How many places there are within the model where a stage may end.
size_t innerCutCount(const Problem &problem);

/// Cut positions of the model: all series positions (where one tensor crosses, or none), then the
/// narrowest positions inside branched blocks, first one in each of limit/2 equally long parts of
/// the layers, until `limit` are chosen; of longer chains evenly spread ones. Layers that are to be
/// together have no cut between them; those that are to be apart have one, if need be beyond the
/// limit.
std::vector<int> cutPositions(const Problem &problem, int limit);

} // namespace heterplan
