// The use of a task that ran, as a trace tells it: how long, on how many workers. The readers of
// traces without speeds make jobs of it.
#pragma once

#include "search/jobs/read/Traces.h"

#include <string>
#include <utility>
#include <vector>

namespace heterplan::jobs {

struct TaskUse {
  double arrival = 0, seconds = 0; // from the start of the trace; of all workers together
  int64_t workers = 1;
  Demand worker{};
  std::string gpuModel{}; // that the trace names; "": none
  int priority = 0;
};

/// The row of `speeds` for a GPU model; null if there is none.
const std::map<std::string, double> *speedsOf(const SpeedMatrix &speeds,
                                              const std::string &gpuModel);

/// A job of `workers` that lasted as long as the trace says: a sample is a second of a worker,
/// which may have fewer workers, or up to as many, in each slot. With a matrix of speeds, workers
/// with GPUs are as fast as its row says. Its utility is drawn.
Job jobOf(const std::string &name, const TaskUse &use, const TraceOptions &options, Draws &draws);

/// A task by its name in the trace, which several may have.
using NamedTask = std::pair<std::string, TaskUse>;
/// Jobs of all tasks, with distinct names. The first one arrives at the start.
Workload workloadOf(std::vector<NamedTask> tasks, const TraceOptions &options);

} // namespace heterplan::jobs
