// An upper bound on the total utility of every schedule, one that knows the future included: what a
// run is measured against. By Lagrangian relaxation of the capacities (Held and Karp, 1971): any
// multipliers give a bound, subgradient steps look for good ones. Time and memory grow with
// jobs × slots × kinds of nodes, not with nodes.
#pragma once

#include "search/jobs/Problem.h"

#include <vector>

namespace heterplan::jobs {

/// How long to look for good multipliers; the bound holds whatever is given.
struct BoundOptions {
  int steps = 300;
  double work = 3e8; // fewer steps where jobs × slots × steps would be more than this
};

struct UtilityBound {
  double value = 0;
  /// The multipliers as costs of a unit, by slot and resource of a node: what capacity is worth to
  /// the jobs that need it.
  std::vector<std::vector<double>> costs;
};
UtilityBound utilityBound(const Problem &problem, const BoundOptions &options = {});

/// The same for every policy and seed. Finite and not negative.
double utilityUpperBound(const Problem &problem, const BoundOptions &options = {});

} // namespace heterplan::jobs
