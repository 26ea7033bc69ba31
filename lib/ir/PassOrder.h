// In which order the passes of a plan run: what lowering lays the instructions of each rank out by.
#pragma once

#include "ir/Plan.h"

#include <vector>

namespace heterplan {

/// One pass of a micro-batch through a stage, on all devices of the stage.
struct StagePass {
  int stage = 0, microBatch = 0;
  bool forward = true;
  bool operator==(const StagePass &) const = default;
};

/// All passes of an iteration in one order in which none precedes what it needs: the passes of each
/// stage in the order of the schedule, forward passes after those of the stages before, backward
/// passes after those of the stages after (StageGraph). Every device that executes its passes in
/// this order comes to the end, also where it runs several stages. List scheduling by the times of
/// the plan: next is the pass that can begin first; of several, a backward pass, then one of a
/// later stage. Deterministic. O(stages² · microBatches).
std::vector<StagePass> passOrder(const Plan &plan);

/// How many forward passes stage `stage` of `stages` does before its first backward pass; also how
/// many micro-batches it holds at a time. 1F1B and interleaved: min(m, S−s), or min(m, 2(S−s)−1) if
/// transfers overlap (ModeRequest::inFlight); GPipe: m; burst: one.
int forwardPassesAhead(Schedule schedule, int stage, int stages, int microBatches,
                       const ModeRequest &asked = {});

} // namespace heterplan
