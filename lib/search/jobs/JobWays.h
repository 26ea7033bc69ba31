// The ways of a job to use one slot of an empty cluster. Limits between slots, kinds of sites and
// jobs are left out, so that a job can do no more than this: the upper bound is made of it.
#pragma once

#include "search/jobs/Problem.h"

#include <vector>

namespace heterplan::jobs {

/// Workers on one kind of site.
struct Way {
  int kind = 0;
  bool isInternal = false; // all workers and servers of the slot are on one node
  double samples = 0;      // of one worker in a slot
  double most = 0;         // samples of all workers that fit
};

/// All ways of one job to use a slot.
struct Ways {
  std::vector<Way> ways;
  double most = 0;        // samples of a slot
  double mostOutside = 0; // samples of a slot in which the job is on several nodes
  /// Work of all ways adds up in one slot. Otherwise a job has one internal way, or others.
  bool addsUp = false;
  double lost = 0; // samples at least, by the restart of the first slot
};

/// The ways of `job`; none where it can never have its least number of workers.
Ways waysOf(const Problem &problem, int job);

} // namespace heterplan::jobs
