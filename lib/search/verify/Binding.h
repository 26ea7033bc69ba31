// The limit on a plan: the constraint that it breaks or is closest to breaking, or else its slowest
// stage.
#pragma once

#include "cost/CostModel.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/PlanLimits.h"

namespace heterplan {

/// The limits of a checked plan: the first check that fails; else the one with the least slack as a
/// share of its limit, below 1 %; else "bottleneck". Fails as reevaluate() does.
llvm::Expected<PlanLimits> limitsOf(const Plan &plan, const LayerGraph &graph,
                                    const Cluster &cluster, const CostModel &costs);

} // namespace heterplan
