// From the chosen widths to a Plan, with the gaps in which its devices are idle.
#pragma once

#include "search/burst/BurstSearch.h"

namespace heterplan {

/// The plan of `stages`, devices assigned, without bound and objective value. Fails when it cannot
/// be lowered.
llvm::Expected<Plan> makeBurstPlan(BurstCosts &costs, llvm::ArrayRef<BurstStage> stages);

/// When each device of `plan` does nothing of it, as the simulator finds it, by device and start.
llvm::Expected<std::vector<IdleGap>> findIdleGaps(const Plan &plan, const LayerGraph &graph,
                                                  const Cluster &cluster);

} // namespace heterplan
