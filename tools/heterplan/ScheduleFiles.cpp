#include "ScheduleFiles.h"

#include "codegen/ScheduleReport.h"
#include "search/jobs/SlotLaunch.h"
#include "support/DirectoryExchange.h"
#include "support/Files.h"
#include "support/HeldSignals.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

using namespace jobs;

namespace {
constexpr const char *scheduleName = "schedule.json", *reportName = "report.html";

Error cannotWrite(StringRef path, std::error_code failure) {
  return Diagnostic(Diag::CannotWrite, {path.str(), 0, 0, ""})
         << "cannot write: " << failure.message();
}

ScheduleFigures::Job figuresOf(const Problem &problem, const Schedule &schedule, int index) {
  ScheduleFigures::Job job{problem.job(index).name,
                           problem.job(index).arrival,
                           utilityOf(problem, schedule, index),
                           schedule[index].reason,
                           {}};
  for (const auto &[slot, rows] : schedule[index].slots) {
    ScheduleFigures::Stretch now{slot, slot, 0, 0};
    for (const Row &row : rows) {
      now.workers += row.workers;
      now.servers += row.servers;
    }
    bool continues = !job.stretches.empty() && job.stretches.back().last + 1 == slot &&
                     job.stretches.back().workers == now.workers &&
                     job.stretches.back().servers == now.servers;
    if (continues)
      job.stretches.back().last = slot;
    else
      job.stretches.push_back(now);
  }
  return job;
}

ScheduleFigures figuresOf(const Problem &problem, const Schedule &schedule, const RunFacts &facts) {
  CompletionTimes times = completionTimes(problem, schedule);
  ScheduleFigures figures;
  figures.cluster = problem.machines().cluster().name;
  figures.policy = facts.policy;
  figures.seed = facts.seed;
  figures.slot = problem.slot();
  figures.makespan = makespan(schedule);
  figures.utility = totalUtility(problem, schedule);
  figures.upperBound = facts.upperBound;
  figures.optimal = facts.optimal;
  figures.meanCompletion = times.mean;
  figures.medianCompletion = times.median;
  figures.p99Completion = times.p99;
  for (int job = 0; job < problem.size(); ++job)
    figures.jobs.push_back(figuresOf(problem, schedule, job));
  std::array<double, resources> means = utilisation(problem, schedule);
  std::vector<std::array<double, resources>> bySlot = utilisationBySlot(problem, schedule);
  for (Resource resource : {Gpu, Cpu, Memory}) {
    ScheduleFigures::Use &use = figures.uses.emplace_back();
    use.resource = nameOf(resource);
    use.mean = means[resource];
    for (const auto &shares : bySlot)
      use.shares.push_back(shares[resource]);
  }
  return figures;
}

Error writeOne(StringRef folder, const HandOverFile &file) {
  SmallString<256> path(folder);
  sys::path::append(path, file.path);
  if (std::error_code failure = sys::fs::create_directories(sys::path::parent_path(path)))
    return cannotWrite(path, failure);
  if (Error error = writeFile(path, file.text))
    return error;
  if (file.isProgram)
    if (std::error_code failure = sys::fs::setPermissions(
            path, sys::fs::perms::all_read | sys::fs::perms::owner_write | sys::fs::perms::all_exe))
      return cannotWrite(path, failure);
  return Error::success();
}

bool hasSchedule(const std::string &directory) {
  std::error_code failure;
  sys::fs::directory_iterator first(directory, failure), end;
  return failure || first == end || sys::fs::exists(directory + "/" + scheduleName);
}

bool hasOnlySlots(const std::string &directory) {
  std::error_code failure;
  for (sys::fs::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (!isSlotPath(sys::path::filename(entry->path())))
      return false;
  return true;
}

/// Refuses an existing path that is no folder, or a folder that `isOurs` does not know, unless by
/// `force`.
Error checkOutput(const std::string &directory, bool force, bool (*isOurs)(const std::string &),
                  const char *otherwise) {
  if (directory.empty() || force || !sys::fs::exists(directory))
    return Error::success();
  const Location place{directory, 0, 0, ""};
  if (!sys::fs::is_directory(directory))
    return Diagnostic(Diag::CannotWrite, place) << "is not a directory";
  if (isOurs(directory))
    return Error::success();
  return Diagnostic(Diag::OutputNotEmpty, place)
             .note({}, "give another directory, or --force to write into this one")
         << otherwise;
}
} // namespace

Error checkScheduleDirectory(const std::string &directory, bool force) {
  return checkOutput(directory, force, hasSchedule,
                     "has files and no schedule.json of an earlier run");
}

Error checkSlotDirectory(const std::string &directory, bool force) {
  return checkOutput(directory, force, hasOnlySlots,
                     "has other files than those of an earlier slot");
}

namespace {
/// Exchanges what `isOurs` names in `directory` for `files`; all or nothing.
Error exchangeFiles(const std::string &directory, const std::vector<HandOverFile> &files,
                    function_ref<bool(StringRef)> isOurs) {
  HeldSignals held;
  std::string target = exchangePath(directory);
  if (std::error_code failure = sys::fs::create_directories(sys::path::parent_path(target)))
    return cannotWrite(target, failure);
  ExchangeObserver observer;
  Expected<DirectoryExchange> exchange = DirectoryExchange::begin(target, observer);
  if (!exchange)
    return exchange.takeError();
  for (const HandOverFile &file : files)
    if (Error error = writeOne(exchange->path(), file))
      return error;
  return exchange->commit(
      [&](StringRef, StringRef path) { return isOurs(path) ? Entry::Replaced : Entry::Kept; });
}
} // namespace

Error writeSlotFiles(const std::string &directory, const std::vector<HandOverFile> &files) {
  return exchangeFiles(directory, files, isSlotPath);
}

Error writeSchedule(const std::string &directory, const Problem &problem, const Schedule &schedule,
                    const RunFacts &facts, const std::vector<std::string> &arguments) {
  std::vector<HandOverFile> files = handOver(problem, schedule, arguments);
  files.push_back({scheduleName, toJson(problem, schedule, facts)});
  files.push_back({reportName, emitScheduleReport(figuresOf(problem, schedule, facts))});
  return exchangeFiles(directory, files, [](StringRef path) {
    return path == scheduleName || path == reportName || isHandOverPath(path);
  });
}

} // namespace heterplan
