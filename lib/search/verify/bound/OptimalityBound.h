// The bound of a plan that the checker verifies, from a certificate, and the search for one.
#pragma once

#include "ir/Certificate.h"
#include "search/verify/bound/StageBounds.h"

#include <string>

namespace heterplan {

/// How far a plan is from the best one of its stated space at most.
struct VerifiedBound {
  double bound = 0; // in the units of Plan::objectiveValue
  double gap = 0;   // as Plan::gap has it
};

/// Bounds on the plans of the space that a plan states.
class OptimalityBound {
public:
  /// All outlive this. A layer that the cost model does not know on a device type is in no stage
  /// there.
  OptimalityBound(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                  const CostModel &costs)
      : bounds(plan, graph, cluster, costs) {}

  /// Why there is no bound; "" if there is one, which verify() and certify() need.
  const std::string &obstacle() const { return bounds.obstacle(); }
  /// Works out a bound from `certificate`; whatever that says, the bound holds.
  VerifiedBound verify(const Certificate &certificate);
  /// A certificate, as good as limited work makes it.
  Certificate certify();

private:
  StageBounds bounds;
};

} // namespace heterplan
