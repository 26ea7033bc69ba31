// Which arcs the stage network has for one number of micro-batches.
#pragma once

#include "search/placement/StageTable.h"

#include <vector>

namespace heterplan {

/// The stages of `table` that may be best, with the least that their transfers take, by end, then
/// begin: an arc for each range of depths that memory tells apart.
/// `wholeModelGroups`: whether groups that are for one-stage plans only count too.
std::vector<StageArc> stageArcs(const Evaluator &evaluator, const StageTable &table,
                                bool wholeModelGroups);

/// More stages behind one count as so many.
constexpr int deepestArc = 24;

} // namespace heterplan
