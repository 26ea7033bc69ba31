// The bound of a plan that the checker verifies, from a certificate, and the search for one.
#pragma once

#include "cost/CostModel.h"
#include "ir/Certificate.h"
#include "ir/Plan.h"

#include <optional>
#include <string>

namespace heterplan {

/// How far a plan is from the best one of its stated space at most.
struct VerifiedBound {
  double bound = 0; // in the units of Plan::objectiveValue
  double gap = 0;   // as Plan::gap has it
};

/// Why verifyBound() has no bound for `plan`; "" if it has one.
std::string boundObstacle(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                          const CostModel &costs);

/// Works out a bound from `certificate`; whatever that says, the bound holds. A layer that the cost
/// model does not know on a device type is in no stage there. boundObstacle() must be empty.
VerifiedBound verifyBound(const Plan &plan, const Certificate &certificate, const LayerGraph &graph,
                          const Cluster &cluster, const CostModel &costs);

/// A certificate for `plan`, as good as limited work makes it; none if boundObstacle() names one.
std::optional<Certificate> certify(const Plan &plan, const LayerGraph &graph,
                                   const Cluster &cluster, const CostModel &costs);

} // namespace heterplan
