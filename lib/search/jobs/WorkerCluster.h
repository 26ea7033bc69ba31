// The devices of one job's workers in a slot as a cluster of their own: what `compile` plans for.
#pragma once

#include "search/jobs/Problem.h"

#include <string>

namespace heterplan::jobs {

struct WorkerCluster {
  /// A cluster file: the nodes with workers and their links; of each GPU type as many devices as
  /// the workers have, and of CPUs one device a worker, with the worker's cores and memory.
  std::string yaml;
  /// One line a node, "NAME slots=DEVICES", as mpirun and other launchers take them.
  std::string hosts;
};

/// The cluster of the workers of `rows`; `job` has a model. Parameter servers are no part of it:
/// heterplan's runtime sums gradients among the workers.
WorkerCluster workerCluster(const Problem &problem, int job, const Rows &rows);

} // namespace heterplan::jobs
