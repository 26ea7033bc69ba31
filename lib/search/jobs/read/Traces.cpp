#include "search/jobs/read/Traces.h"

#include "search/jobs/read/TaskUse.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

Job jobOf(const std::string &name, const TaskUse &use, const TraceOptions &options, Draws &draws) {
  Job job;
  job.name = name;
  job.arrival = static_cast<int>(std::min(use.arrival / options.slot.value(), 1e9));
  job.batch = std::max<int64_t>(1, use.workers);
  job.samples = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(std::min(use.seconds * double(use.workers), 1e15))));
  job.sampleTime = Seconds(1);
  job.worker = use.worker;
  job.workersPerServer = double(job.batch);
  job.utility = drawUtility(draws);
  return job;
}

Workload workloadOf(std::vector<NamedTask> tasks, const TraceOptions &options) {
  double first = INFINITY;
  for (const auto &[name, use] : tasks)
    first = std::min(first, use.arrival);
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  StringMap<int> names;
  for (auto &[name, use] : tasks) {
    use.arrival -= first;
    const int copy = names[name]++;
    workload.jobs.push_back(
        jobOf(copy ? name + "#" + std::to_string(copy) : name, use, options, draws));
  }
  return workload;
}

ArrayRef<TraceForm> traceForms() {
  static const TraceForm all[] = {
#define HETERPLAN_TRACE(name, reader, help) {name, help},
#include "search/jobs/read/Traces.def"
  };
  return all;
}

Expected<Workload> parseTrace(StringRef form, StringRef text, StringRef path,
                              const Machines &machines, const TraceOptions &options) {
#define HETERPLAN_TRACE(name, reader, help)                                                        \
  if (form == name)                                                                                \
    return reader(text, path, machines, options);
#include "search/jobs/read/Traces.def"
  return Diagnostic(Diag::Usage, {path.str(), 0, 0, ""}) << "unknown form of a trace: " << form;
}

} // namespace heterplan::jobs
