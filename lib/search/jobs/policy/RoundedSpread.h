// The external case of PD-ORS: workers and servers of one job and slot spread over nodes, as a
// mixed packing and covering integer model. Its linear relaxation is solved, scaled by G_δ and
// rounded at random (Yu et al., arXiv 2108.02917, algorithm 4).
#pragma once

#include "search/jobs/SlotOptions.h"
#include "search/jobs/policy/Policy.h"

#include <optional>

namespace heterplan::jobs {

struct SpreadRounding {
  RoundingOptions options;
  uint64_t seed = 0, slot = 0; // of the random numbers: the same whatever came before
};

/// Sites that a model looks at: the cheapest.
constexpr size_t mostSitesOfSpread = 32;

/// The cheapest spread among the tries that holds: packing (what is free, workers ≤ batch),
/// covering
/// (`samples` are trained, servers ≥ workers/γ). None where no try holds, or where no spread can
/// cost less than `worth`. Packing is never violated in what is returned.
std::optional<SlotPlan> roundedSpread(const Problem &problem, int job, const SlotState &state,
                                      double samples, double worth, const SpreadRounding &rounding,
                                      RoundingCounts &counts);

} // namespace heterplan::jobs
