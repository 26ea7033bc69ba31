// Gavel (Narayanan et al., OSDI 2020): jobs as tab-separated lines, speeds in a JSON file of steps
// a second by device type and job type.
#include "search/jobs/read/Traces.h"
#include "support/SeparatedLines.h"
#include "support/Suggestion.h"
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

using namespace llvm;

namespace heterplan::jobs {

namespace {
/// Steps a second alone, by device type and "('ResNet-18 (batch size 16)', 1)".
using Speeds = std::map<std::string, std::map<std::string, double>>;

Expected<Speeds> readSpeeds(const TraceOptions &options) {
  Expected<YamlNode> root = parseYaml(options.throughputs, options.throughputsPath, largestTrace);
  if (!root)
    return root.takeError();
  Speeds speeds;
  for (const YamlEntry &type : root->entries)
    for (const YamlEntry &job : type.value.entries)
      for (const YamlEntry &beside : job.value.entries) {
        if (beside.key != "null")
          continue;
        if (Error error = readNumber(beside.value, "steps a second of " + job.key, 1e9,
                                     speeds[type.key][job.key]))
          return error;
      }
  if (speeds.empty())
    return Diagnostic(Diag::MissingField, root->location)
           << "there are no steps a second of any device type alone ('null')";
  return speeds;
}

/// The number in "Transformer (batch size 128)"; 1 where there is none ("A3C"): a sample is a step.
int64_t batchOf(StringRef type) {
  int64_t batch = 1;
  StringRef text = type.split("(batch size ").second.take_until([](char c) { return c == ')'; });
  return text.getAsInteger(10, batch) || batch < 1 ? 1 : std::min<int64_t>(batch, 1 << 30);
}

std::string keyOf(StringRef type, int64_t scale) {
  return ("('" + type + "', " + Twine(scale) + ")").str();
}

/// Seconds of a sample on one of `scale` workers, by the cluster's device types.
std::map<std::string, Seconds> timesOf(const Speeds &speeds, const std::string &job, int64_t batch,
                                       int64_t scale, const Cluster &cluster) {
  std::map<std::string, Seconds> times;
  for (const DeviceType &type : cluster.types) {
    auto entry = speeds.find(type.name);
    if (entry == speeds.end() || !entry->second.count(job))
      continue;
    if (double steps = entry->second.at(job); steps > 0)
      times[type.name] = Seconds(double(scale) / (steps * double(batch)));
  }
  return times;
}

/// The job types that `speeds` has, without their scales.
std::vector<std::string> typesOf(const Speeds &speeds) {
  std::set<std::string> types;
  for (const auto &[device, jobs] : speeds)
    for (const auto &[key, steps] : jobs)
      types.insert(StringRef(key).ltrim("('").rsplit("', ").first.str());
  return {types.begin(), types.end()};
}

/// Refuses a job of which no device type of the cluster has steps a second.
void refuseType(SeparatedLines &lines, int64_t scale, const Speeds &speeds,
                const TraceOptions &options, const Cluster &cluster) {
  constexpr size_t mostNames = 12;
  StringRef type = lines.field(0).trim();
  std::vector<std::string> types = typesOf(speeds), devices;
  if (is_contained(types, type)) {
    for (const auto &[device, jobs] : speeds)
      if (any_of(jobs, [&](auto &entry) { return StringRef(entry.first).contains(type); }))
        devices.push_back(device);
    lines.expect("one of the device types that " + options.throughputsPath +
                 " has for this job: " + join(devices, ", "));
    return lines.refuse(0, "no device type of the cluster '" + cluster.name +
                               "' has steps a second for '" + type + "' on " + Twine(scale) +
                               " workers or on one");
  }
  const size_t all = types.size();
  std::string meant = didYouMean(type, types);
  types.resize(std::min(all, mostNames));
  lines.expect("a job type of " + options.throughputsPath + ": " + join(types, ", ") +
               (all > mostNames ? " and " + std::to_string(all - mostNames) + " more" : ""));
  lines.refuse(0, "there are no steps a second for '" + type.take_front(100) + "'" + meant);
}

/// The columns of the fields of a line. Older traces end with steps, arrival and scale factor, with
/// or without a working directory; newer ones with steps, scale factor, weight, SLO and arrival.
struct Columns {
  size_t steps, scale, arrival;
  std::optional<size_t> weight, objective;
};

std::optional<Columns> columnsOf(size_t fields) {
  if (fields == 10)
    return Columns{5, 6, 9, 7, 8};
  if (fields == 7 || fields == 8)
    return Columns{fields - 3, fields - 1, fields - 2, std::nullopt, std::nullopt};
  return std::nullopt;
}

constexpr const char *forms =
    "tab-separated lines 'type, command, steps argument, needs data directory, total steps, "
    "arrival, scale factor' (a working directory may follow the command) or 'type, command, "
    "working directory, steps argument, needs data directory, total steps, scale factor, weight, "
    "SLO, arrival'";

/// A number that the trace must state.
double stated(SeparatedLines &lines, size_t column, const char *what) {
  if (lines.isMissing(column))
    lines.refuse(column, Twine(what) + " is '" + lines.field(column).take_front(100) +
                             "'; numbers from 0 to 1e18 are accepted");
  return lines.real(column, what);
}

/// A service-level objective is a multiple of the time on the fastest device type; below 0: none.
void setObjective(SeparatedLines &lines, const Columns &columns, Job &job, Seconds slot) {
  if (!columns.objective || lines.isMissing(*columns.objective) ||
      lines.field(*columns.objective).trim().startswith("-"))
    return;
  double factor = lines.real(*columns.objective, "SLO");
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto &[type, time] : job.sampleTimes)
    fastest = std::min(fastest, time.value());
  double slots = factor * job.work() * fastest / double(job.batch) / slot.value();
  if (factor > 0 && std::isfinite(slots))
    job.deadline = JobDeadline{int(std::min(std::ceil(slots), 1e9)), false};
}
} // namespace

Expected<Workload> parseGavel(StringRef text, StringRef path, const Machines &machines,
                              const TraceOptions &options) {
  Expected<Speeds> speeds = readSpeeds(options);
  if (!speeds)
    return speeds.takeError();
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  SeparatedLines lines(text, path, '\t', 1);
  lines.expect(forms);
  while (lines.next()) {
    std::optional<Columns> columns = columnsOf(lines.size());
    if (!columns) {
      lines.refuse(0, "the line has " + Twine(lines.size()) + " tab-separated fields");
      break;
    }
    Job job;
    job.name = "job-" + std::to_string(workload.jobs.size());
    job.location = {path.str(), lines.number(), 1, ""};
    int64_t batch = batchOf(lines.field(0));
    int64_t scale = lines.whole(columns->scale, "scale factor", 1, 1 << 20);
    job.samples = lines.whole(columns->steps, "total steps", 1, 1'000'000'000) * batch;
    job.arrival =
        int(std::min(stated(lines, columns->arrival, "arrival") / options.slot.value(), 1e9));
    job.batch = scale;
    job.minWorkers = scale;
    job.sameType = true;
    job.worker = {0, 0, 1};
    job.workersPerServer = double(scale);
    job.utility = drawUtility(draws);
    if (columns->weight)
      job.utility.value *= stated(lines, *columns->weight, "weight");
    std::string type = lines.field(0).trim().str();
    job.sampleTimes = timesOf(*speeds, keyOf(type, scale), batch, scale, machines.cluster());
    if (job.sampleTimes.empty()) // measured on one worker only
      job.sampleTimes = timesOf(*speeds, keyOf(type, 1), batch, 1, machines.cluster());
    if (job.sampleTimes.empty())
      refuseType(lines, scale, *speeds, options, machines.cluster());
    setObjective(lines, *columns, job, options.slot);
    workload.jobs.push_back(std::move(job));
  }
  if (Error error = lines.take())
    return error;
  return workload;
}

} // namespace heterplan::jobs
