// Re-evaluation of plans in which a device runs several stages: their time, which no formula gives,
// and the memory of a device for all its stages.
#pragma once

#include "search/verify/ConstraintFormulas.h"

namespace heterplan {

/// How a plan whose schedule lets stages share devices runs.
struct SharedSchedule {
  Seconds iteration{};
  std::vector<IdleGap> idle; // by rank; free memory is not filled in
};
/// Its Program with the re-evaluated durations, executed by the simulator. Fails as lower() and
/// simulate() do.
llvm::Expected<SharedSchedule> runShared(const Plan &plan,
                                         const std::vector<ReevaluatedStage> &stages,
                                         const LayerGraph &graph, const Cluster &cluster);

/// The formula that devices run no stage in the stated gaps and have the stated memory free there;
/// none if the plan states no gap.
std::optional<ConstraintFormula> gapsAreIdle(const CheckInputs &in);

/// For each device that runs several stages without an obstacle: the part `fraction` of its memory
/// has room for what all of them need. One part for each; what is left goes to `rooms`.
std::vector<Part> sharedMemory(const CheckInputs &in, double fraction, std::vector<Formula> &rooms);

} // namespace heterplan
