#include "search/jobs/read/JobsReader.h"

#include "search/jobs/read/JobFields.h"
#include "search/jobs/read/QueueFields.h"
#include "support/Files.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr int mostSlots = 1'000'000;
constexpr size_t mostJobs = 100'000;

Error readJobs(const YamlNode &node, std::vector<Job> &jobs) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << "jobs must be a list (- {...})";
  if (node.items.size() > mostJobs)
    return Diagnostic(Diag::TooLarge, node.location)
           << "there are " << node.items.size() << " jobs; at most " << mostJobs << " are accepted";
  StringMap<Location> names;
  for (const YamlNode &item : node.items) {
    if (Error error = readJob(item, jobs.emplace_back()))
      return error;
    auto [entry, isNew] = names.try_emplace(jobs.back().name, jobs.back().location);
    if (!isNew)
      return Diagnostic(Diag::DuplicateName, jobs.back().location)
                 .note(entry->second, "the first one is here")
             << "two jobs are called '" << jobs.back().name << "'";
  }
  return Error::success();
}
} // namespace

Expected<Workload> parseWorkload(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path, largestJobsFile);
  if (!root)
    return root.takeError();
  Workload workload;
  if (Error error = readMapping(
          *root, "the jobs file",
          {{"slot", Presence::Required,
            [&](const YamlNode &node) { return readDuration(node, "slot", workload.slot); }},
           {"slots", Presence::Required,
            [&](const YamlNode &node) {
              return readInteger(node, "slots", 1, mostSlots, workload.slots);
            }},
           {"queues", Presence::Optional,
            [&](const YamlNode &node) { return readQueues(node, workload.queues); }},
           {"jobs", Presence::Required,
            [&](const YamlNode &node) { return readJobs(node, workload.jobs); }}}))
    return error;
  return workload;
}

Expected<Workload> readWorkload(StringRef path) {
  Expected<std::string> text = readFile(path, largestJobsFile);
  if (!text)
    return text.takeError();
  return parseWorkload(*text, path);
}

Expected<Job> parseJob(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  Job job;
  if (Error error = readJob(*root, job))
    return error;
  return job;
}

Expected<Arrivals> readArrivals(StringRef path) {
  Expected<std::string> text = readFile(path, largestJobsFile);
  if (!text)
    return text.takeError();
  Expected<YamlNode> root = parseYaml(*text, path, largestJobsFile);
  if (!root)
    return root.takeError();
  if (any_of(root->entries, [](const YamlEntry &entry) { return entry.key == "jobs"; })) {
    Expected<Workload> workload = parseWorkload(*text, path);
    if (!workload)
      return workload.takeError();
    return Arrivals{std::move(workload->jobs), std::move(workload->queues)};
  }
  Arrivals arrivals;
  if (Error error = readJob(*root, arrivals.jobs.emplace_back()))
    return error;
  return arrivals;
}

} // namespace heterplan::jobs
