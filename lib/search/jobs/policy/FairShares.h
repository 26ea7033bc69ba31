// Shares of jobs by their dominant resource, over the cluster as a whole.
#pragma once

#include "search/jobs/policy/SlotPolicy.h"

#include <vector>

namespace heterplan::jobs {

struct FairShare {
  double workers = 0; // fractional
  double share = 0;   // of the resource of which the job takes most
};

/// By job, of the active ones: progressive filling until every job has all that it can use or meets
/// a resource that is used up (Ghodsi et al., NSDI 2011, algorithm 1, in the limit of small tasks).
std::vector<FairShare> fairShares(const SlotView &view);

} // namespace heterplan::jobs
