// The time that a 1F1B pipeline takes as scheduled, for the checker: from the rules in
// docs/rationale/simulator.md, sharing no code with what stated the time.
#pragma once

#include "search/verify/Reevaluation.h"

namespace heterplan {

/// From the beginning of the first forward pass to the end of the last synchronisation, for at
/// least two stages that are all without an obstacle. `holdsLastStage`: as plans are compared; else
/// as they should run. `overlapsTransfers`: messages over a boundary travel beside the passes.
Seconds scheduledTime(const std::vector<ReevaluatedStage> &stages, int microBatches,
                      bool holdsLastStage, bool overlapsTransfers = false);

} // namespace heterplan
