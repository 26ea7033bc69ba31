// Microsoft's Philly cluster (Jeon et al., USENIX ATC 2019): `cluster_job_log`, a JSON list of
// jobs, each with its attempts and the GPUs of each attempt.
#include "search/jobs/read/TaskUse.h"
#include "search/jobs/read/TraceTime.h"
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

namespace {
/// The value of `key`; null where there is none.
const YamlNode *find(const YamlNode &node, StringRef key) {
  auto entry = find_if(node.entries, [&](const YamlEntry &entry) { return entry.key == key; });
  return entry == node.entries.end() ? nullptr : &entry->value;
}

Expected<const YamlNode *> required(const YamlNode &node, StringRef what, StringRef key) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a mapping ({...})";
  if (const YamlNode *value = find(node, key))
    return value;
  return Diagnostic(Diag::MissingField, node.location) << what << " lacks '" << key << "'";
}

/// The items of the list `key`; none if it is null.
Expected<ArrayRef<YamlNode>> requiredList(const YamlNode &node, StringRef what, StringRef key) {
  Expected<const YamlNode *> value = required(node, what, key);
  if (!value)
    return value.takeError();
  if ((*value)->kind == YamlNode::Kind::Null)
    return ArrayRef<YamlNode>();
  if ((*value)->kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, (*value)->location)
           << key << " of " << what << " must be a list ([...])";
  return ArrayRef<YamlNode>((*value)->items);
}

/// "2017-10-07 01:23:45" in seconds; NaN for a time that is not known (null, None, "").
Expected<double> timeOf(const YamlNode &node, StringRef what) {
  StringRef text = StringRef(node.text).trim();
  bool isAbsent = node.kind == YamlNode::Kind::Null || text.empty() || text == "None" ||
                  text == "null" || text == "~";
  if (isAbsent && node.kind != YamlNode::Kind::Sequence && node.kind != YamlNode::Kind::Mapping)
    return std::nan("");
  std::optional<double> seconds;
  if (node.kind == YamlNode::Kind::Scalar)
    seconds = secondsOf(text);
  if (!seconds)
    return Diagnostic(Diag::WrongType, node.location)
           << what << " must be a time such as \"2017-10-07 01:23:45\", or null";
  return *seconds;
}

/// The use of an attempt: seconds times GPUs, 0 where it did not run to an end; and its GPUs.
struct Attempt {
  double gpuSeconds = 0;
  int64_t gpus = 0;
};

Expected<Attempt> readAttempt(const YamlNode &node, const std::string &what) {
  std::array<double, 2> times{};
  for (auto [key, time] : {std::pair("start_time", &times[0]), {"end_time", &times[1]}}) {
    Expected<const YamlNode *> value = required(node, what, key);
    if (!value)
      return value.takeError();
    Expected<double> read = timeOf(**value, (Twine(key) + " of " + what).str());
    if (!read)
      return read.takeError();
    *time = *read;
  }
  Expected<ArrayRef<YamlNode>> machines = requiredList(node, what, "detail");
  if (!machines)
    return machines.takeError();
  Attempt attempt;
  for (const YamlNode &machine : *machines) {
    Expected<ArrayRef<YamlNode>> gpus = requiredList(machine, "a machine of " + what, "gpus");
    if (!gpus)
      return gpus.takeError();
    attempt.gpus += int64_t(gpus->size());
  }
  double seconds = times[1] - times[0];
  if (seconds > 0) // not for NaN
    attempt.gpuSeconds = seconds * double(attempt.gpus);
  return attempt;
}

struct LoggedJob {
  std::string name;
  TaskUse use;
  Location location;
};

/// One entry of the log; `seconds` is 0 where the job never ran to an end of an attempt.
Expected<LoggedJob> readLoggedJob(const YamlNode &node) {
  LoggedJob job;
  job.location = node.location;
  Expected<const YamlNode *> id = required(node, "a job", "jobid");
  if (!id)
    return id.takeError();
  if (Error error = readText(**id, "jobid", job.name))
    return error;
  std::string what = "job '" + job.name + "'";
  Expected<const YamlNode *> submitted = required(node, what, "submitted_time");
  if (!submitted)
    return submitted.takeError();
  Expected<double> arrival = timeOf(**submitted, "submitted_time of " + what);
  if (!arrival)
    return arrival.takeError();
  job.use.arrival = *arrival;
  Expected<ArrayRef<YamlNode>> attempts = requiredList(node, what, "attempts");
  if (!attempts)
    return attempts.takeError();
  double gpuSeconds = 0;
  for (const YamlNode &each : *attempts) {
    Expected<Attempt> attempt = readAttempt(each, "an attempt of " + what);
    if (!attempt)
      return attempt.takeError();
    gpuSeconds += attempt->gpuSeconds;
    if (attempt->gpuSeconds > 0)
      job.use.workers = std::max(job.use.workers, attempt->gpus);
  }
  job.use.seconds = gpuSeconds / double(job.use.workers);
  job.use.worker = {0, 0, 1};
  return job;
}
} // namespace

Expected<Workload> parsePhilly(StringRef text, StringRef path, const Machines &,
                               const TraceOptions &options) {
  Expected<YamlNode> root = parseYaml(text, path, largestTrace);
  if (!root)
    return root.takeError();
  if (root->kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, root->location) << "the job log must be a list of jobs";
  std::vector<LoggedJob> logged;
  StringSet<> names;
  for (const YamlNode &node : root->items) {
    Expected<LoggedJob> job = readLoggedJob(node);
    if (!job)
      return job.takeError();
    if (!names.insert(job->name).second)
      return Diagnostic(Diag::DuplicateName, job->location)
             << "two jobs are called '" << job->name << "'";
    if (job->use.seconds > 0 && std::isfinite(job->use.arrival))
      logged.push_back(std::move(*job));
  }
  double first = INFINITY;
  for (const LoggedJob &job : logged)
    first = std::min(first, job.use.arrival);
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  for (LoggedJob &job : logged) {
    job.use.arrival -= first;
    workload.jobs.push_back(jobOf(job.name, job.use, options, draws));
    workload.jobs.back().location = job.location;
  }
  return workload;
}

} // namespace heterplan::jobs
