// The independent checker: takes a plan, the model, the cluster and a cost model afresh and has Z3
// decide each constraint in exact arithmetic. It sees the definitions (ir, cost) and never the
// search that made the plan. docs/checks.md lists the checks.
#pragma once

#include "cost/CostModel.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// A check with the first reason why it fails ("" when it holds).
struct Finding {
  Check check;
  std::string because;
};

/// Checks every constraint of `plan`; a limit that the plan does not have is left out. Slack is how
/// much of the check's unit could be taken away, negative by how much is missing. A figure that the
/// plan states must equal its re-evaluation within 1e-6, relative. A check that Z3 cannot decide
/// does not hold and says so. Fails only when the cost model has no price for a layer (NoProfile)
/// or Z3 runs out of memory.
llvm::Expected<std::vector<Finding>> examinePlan(const Plan &plan, const LayerGraph &graph,
                                                 const Cluster &cluster, const CostModel &costs);

/// Checks a plan and returns the checks without their reasons.
llvm::Expected<std::vector<Check>> checkPlan(const Plan &plan, const LayerGraph &graph,
                                             const Cluster &cluster, const CostModel &costs);

} // namespace heterplan
