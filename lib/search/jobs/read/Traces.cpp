#include "search/jobs/read/Traces.h"

#include "search/jobs/read/TaskUse.h"
#include "support/SeparatedLines.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr double microseconds = 1e6;
} // namespace

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

/// time, missing, job, task, machine, event, user, class, priority, cpu, memory, ...: shares are of
/// the largest machine.
Expected<Workload> parseGoogle(StringRef text, StringRef path, const Machines &machines,
                               const TraceOptions &options) {
  constexpr int64_t submit = 0, schedule = 1, finish = 4;
  struct Events {
    double submitted = -1;
    std::map<int64_t, double> started; // by task
    double longest = 0;
    int priority = 0;
    double cpu = 0, memory = 0;
  };
  std::map<std::string, Events> jobs;
  double largest[resources] = {};
  for (size_t i = 0; i < machines.capacity().size(); ++i)
    largest[machines.resourceOf(int(i))] =
        std::max(largest[machines.resourceOf(int(i))], machines.capacity()[i]);
  SeparatedLines lines(text, path, ',', 11);
  lines.expect(
      "task events of 2011: 'time, missing info, job, task index, machine, event type, user, "
      "class, priority, cpu request, memory request, ...'; the traces of 2019 are not "
      "supported");
  while (lines.next()) {
    Events &job = jobs[lines.field(2).str()];
    double time = lines.real(0, "time") / microseconds;
    int64_t task = lines.whole(3, "task index", 0, 1 << 20);
    int64_t event = lines.whole(5, "event type", 0, 8);
    if (event == submit && job.submitted < 0)
      job.submitted = time;
    if (event == schedule)
      job.started.try_emplace(task, time);
    if (auto started = job.started.find(task); event == finish && started != job.started.end())
      job.longest = std::max(job.longest, time - started->second);
    job.priority = int(lines.whole(8, "priority", 0, 1000));
    job.cpu = std::max(job.cpu, lines.real(9, "cpu request"));
    job.memory = std::max(job.memory, lines.real(10, "memory request"));
  }
  if (Error error = lines.take())
    return error;
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  for (const auto &[name, events] : jobs) {
    if (events.submitted < 0 || events.longest <= 0 || events.cpu <= 0)
      continue; // the trace does not show it from its arrival to its end
    TaskUse use{events.submitted,
                events.longest,
                int64_t(events.started.size()),
                {std::max(1.0, std::round(events.cpu * largest[Cpu])),
                 std::ceil(events.memory * largest[Memory]), 0}};
    workload.jobs.push_back(jobOf(name, use, options, draws));
    workload.jobs.back().priority = events.priority;
  }
  return workload;
}

} // namespace heterplan::jobs
