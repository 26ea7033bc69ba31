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
      : plan(plan), graph(graph), cluster(cluster), costs(costs),
        bounds(plan, graph, cluster, costs) {}

  /// Why there is no bound; "" if there is one, which verify() and certify() need.
  const std::string &obstacle() const { return bounds.obstacle(); }
  /// Works out a bound from `certificate`; whatever that says, the bound holds.
  VerifiedBound verify(const Certificate &certificate);
  /// A certificate, as good as limited work makes it. It does not depend on the number of threads.
  Certificate certify(int threads = 1);

private:
  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  StageBounds bounds;
};

} // namespace heterplan
