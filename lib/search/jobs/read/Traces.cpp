#include "search/jobs/read/Traces.h"

#include "search/jobs/read/TaskUse.h"
#include "support/Yaml.h"

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
  job.priority = use.priority;
  if (const auto *speeds = speedsOf(options.speeds, use.gpuModel); speeds && job.runsOnGpus())
    for (const auto &[type, speed] : *speeds)
      job.sampleTimes[type] = Seconds(1 / speed);
  job.workersPerServer = double(job.batch);
  job.utility = drawUtility(draws);
  return job;
}

const std::map<std::string, double> *speedsOf(const SpeedMatrix &speeds,
                                              const std::string &gpuModel) {
  auto row = speeds.find(gpuModel);
  if (row == speeds.end())
    row = speeds.find("*");
  return row == speeds.end() ? nullptr : &row->second;
}

namespace {
constexpr const char *matrixForm =
    "expected: {GPU model of the trace, or '*': {device type of the cluster: speed}}";

Error readSpeeds(const YamlNode &node, const std::string &model, const Cluster &cluster,
                 std::map<std::string, double> &speeds) {
  constexpr double most = 1e6;
  if (node.kind != YamlNode::Kind::Mapping || node.entries.empty())
    return Diagnostic(Diag::WrongType, node.location).note({}, matrixForm)
           << "the speeds of '" << model << "' must be a mapping of device types";
  for (const YamlEntry &entry : node.entries) {
    int type = cluster.typeIndex(entry.key);
    double speed = 0;
    if (Error error =
            readNumber(entry.value, "speed of '" + model + "' on " + entry.key, most, speed))
      return error;
    if (speed <= 0)
      return Diagnostic(Diag::OutOfRange, entry.value.location)
             << "speed of '" << model << "' on " << entry.key << " is 0; leave the type out";
    if (type >= 0 && cluster.types[type].deviceClass == DeviceClass::Gpu)
      speeds[entry.key] = speed; // a matrix may have more types than a cluster
  }
  if (!speeds.empty())
    return Error::success();
  return Diagnostic(Diag::UnknownDevice, node.location).note({}, matrixForm)
         << "the speeds of '" << model << "' are of no GPU type of the cluster";
}

Expected<SpeedMatrix> readMatrix(const TraceOptions &options, const Cluster &cluster) {
  Expected<YamlNode> root = parseYaml(options.throughputs, options.throughputsPath, largestTrace);
  if (!root)
    return root.takeError();
  if (root->kind != YamlNode::Kind::Mapping || root->entries.empty())
    return Diagnostic(Diag::WrongType, root->location).note({}, matrixForm)
           << "a matrix of speeds must be a mapping of GPU models";
  SpeedMatrix speeds;
  for (const YamlEntry &entry : root->entries)
    if (Error error = readSpeeds(entry.value, entry.key, cluster, speeds[entry.key]))
      return error;
  return speeds;
}
} // namespace

Workload workloadOf(std::vector<NamedTask> tasks, const TraceOptions &options) {
  double first = INFINITY;
  for (const auto &[name, use] : tasks)
    first = std::min(first, use.arrival);
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  StringMap<int> copies; // of each name so far
  for (const auto &[name, use] : tasks)
    copies[name] = 0;
  for (auto &[name, use] : tasks) {
    use.arrival -= first;
    std::string own = name;
    while (int copy = copies[name]++) {
      own = name + "#" + std::to_string(copy);
      if (!copies.count(own))
        break;
    }
    workload.jobs.push_back(jobOf(own, use, options, draws));
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

namespace {
Expected<Workload> readForm(StringRef form, StringRef text, StringRef path,
                            const Machines &machines, const TraceOptions &options) {
#define HETERPLAN_TRACE(name, reader, help)                                                        \
  if (form == name)                                                                                \
    return reader(text, path, machines, options);
#include "search/jobs/read/Traces.def"
  return Diagnostic(Diag::Usage, {path.str(), 0, 0, ""}) << "unknown form of a trace: " << form;
}
} // namespace

Expected<Workload> parseTrace(StringRef form, StringRef text, StringRef path,
                              const Machines &machines, const TraceOptions &given) {
  const Location place{path.str(), 1, 1, ""};
  if (text.trim().empty())
    return Diagnostic(Diag::Syntax, place) << "the file is empty";
  TraceOptions options = given;
  if (form != "gavel" && !options.throughputs.empty()) {
    Expected<SpeedMatrix> speeds = readMatrix(options, machines.cluster());
    if (!speeds)
      return speeds.takeError();
    options.speeds = std::move(*speeds);
    if (form != "alibaba" && !options.speeds.count("*"))
      return Diagnostic(Diag::MissingField, {options.throughputsPath, 1, 1, ""})
                 .note({}, matrixForm)
             << "the trace names no GPU models, and the matrix has no row '*'";
  }
  Expected<Workload> workload = readForm(form, text, path, machines, options);
  if (workload && workload->jobs.empty())
    return Diagnostic(Diag::MissingField, place)
               .note({}, "jobs without a start or an end are left out")
           << "the trace has no job that ran";
  return workload;
}

} // namespace heterplan::jobs
