// Groups of sites that are alike for a job in a slot. Most nodes of a large cluster are, so that
// options of a slot look at groups in place of sites.
#pragma once

#include "search/jobs/SlotOptions.h"

#include <vector>

namespace heterplan::jobs {

/// Sites of one kind with equal amounts that are free, equal costs and equal growth of costs. Two
/// groups may be alike, too.
class AlikeSites {
public:
  /// All sites, or those that have room for a worker or a server of `job`; none where no worker of
  /// it has room.
  AlikeSites(const Problem &problem, const SlotState &state, int job = -1);

  /// The first site of each group, in ascending order.
  llvm::ArrayRef<int> groups() const { return firsts; }
  /// The next site of the group of `site`, in ascending order; -1: none.
  int after(int site) const { return next[site]; }

private:
  std::vector<int> firsts, next;
};

/// Whether one of `demand` fits at `site`, if there are no quotas.
bool hasRoom(const Problem &problem, const Demand &demand, int site, llvm::ArrayRef<double> free);

} // namespace heterplan::jobs
