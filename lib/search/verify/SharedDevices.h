// What the checker works out about plans in which a device runs several stages: their time, which
// no formula gives, and what the device must hold of all its stages.
#pragma once

#include "search/verify/ConstraintFormulas.h"

namespace heterplan {

/// The iteration time of a plan whose schedule lets stages share devices: its Program with the
/// re-evaluated durations, executed by the simulator. Fails as lower() and simulate() do.
llvm::Expected<Seconds> sharedScheduleTime(const Plan &plan,
                                           const std::vector<ReevaluatedStage> &stages,
                                           const LayerGraph &graph, const Cluster &cluster);

/// For each device that runs several stages without an obstacle: it has room for what all of them
/// need. One part for each; what is left goes to `rooms`.
std::vector<Part> sharedMemory(const CheckInputs &in, std::vector<Formula> &rooms);

} // namespace heterplan
