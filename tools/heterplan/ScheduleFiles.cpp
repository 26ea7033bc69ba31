#include "ScheduleFiles.h"

#include "ScratchFile.h"

#include "codegen/ScheduleReport.h"
#include "search/jobs/SlotLaunch.h"
#include "support/DirectoryExchange.h"
#include "support/Files.h"
#include "support/HeldSignals.h"
#include "support/Progress.h"
#include "support/TemporaryNames.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <map>
#include <set>

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
/// Lets the files of `from` be those of `to`, too.
Error linkFolder(const std::string &from, const std::string &to) {
  std::error_code failure = sys::fs::create_directories(to);
  for (sys::fs::recursive_directory_iterator entry(from, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::string path = to + entry->path().substr(from.size());
    bool isFolder = sys::fs::is_directory(entry->path());
    failure = isFolder ? sys::fs::create_directories(path)
                       : sys::fs::create_hard_link(entry->path(), path);
    if (failure && !isFolder)
      failure = sys::fs::copy_file(entry->path(), path);
    if (failure)
      break;
  }
  return failure ? cannotWrite(to, failure) : Error::success();
}

/// Lets the scripts of jobs plan what they run.
class ScriptPlanning {
public:
  ScriptPlanning(const Problem &problem, StringRef root, std::string planner)
      : problem(problem), root(root.str()), planner(std::move(planner)) {}

  Error plan(const std::vector<HandOverFile> &files) {
    Progress progress = Progress::onStandardError("planning the jobs");
    std::map<std::string, std::string> clusters; // by folder
    for (const HandOverFile &file : files)
      if (StringRef(file.path).endswith("/cluster.yaml"))
        clusters[sys::path::parent_path(file.path).str()] = file.text;
    for (size_t i = 0; i < files.size(); ++i) {
      progress.update(double(i) / double(files.size()));
      StringRef part = planningPart(files[i].text);
      if (files[i].job < 0 || part.empty())
        continue;
      std::string folder = sys::path::parent_path(files[i].path).str();
      auto [entry, isNew] = planned.try_emplace(part.str() + clusters[folder], folder);
      if (Error error = isNew ? run(files[i], folder)
                              : linkFolder(root + "/" + entry->second + "/plan",
                                           root + "/" + folder + "/plan"))
        return error;
    }
    return Error::success();
  }

private:
  Error run(const HandOverFile &script, const std::string &folder) {
    ScratchFile scratch;
    StringRef name = "heterplan-schedule-";
    if (std::error_code failure = createScratchFile(name, ".log", scratch.path))
      return cannotWrite(name, failure);
    StringRef log = scratch.path;
    std::string program = "HETERPLAN=" + planner, path = root + "/" + script.path, because;
    ErrorOr<std::string> env = sys::findProgramByName("env");
    Optional<StringRef> redirects[] = {StringRef(""), log, log};
    int status = env ? sys::ExecuteAndWait(*env, {"env", program, path, planOption}, None,
                                           redirects, 0, 0, &because)
                     : -1;
    if (status == 0)
      return Error::success();
    if (Expected<std::string> said = readFile(log, largestLog))
      errs() << *said;
    else
      consumeError(said.takeError());
    const Job &job = problem.job(script.job);
    return Diagnostic(Diag::Infeasible, job.modelLocation)
               .note({}, "'heterplan compile' says why above; with --no-plans the script plans "
                         "when it runs")
           << "no plan for job '" << job.name << "' on its workers of "
           << sys::path::filename(folder) << (because.empty() ? "" : ": ") << because;
  }

  static constexpr uint64_t largestLog = 1 << 20;
  const Problem &problem;
  std::string root, planner;
  std::map<std::string, std::string> planned; // folder by what is planned
};

Error writeAll(StringRef folder, const std::vector<HandOverFile> &files) {
  HeldSignals held;
  for (const HandOverFile &file : files)
    if (Error error = writeOne(folder, file))
      return error;
  return Error::success();
}

/// Exchanges what `isOurs` names in `directory` for `files`; all or nothing. `finish` completes the
/// new directory. It takes long and may be interrupted, unlike what comes before and after it.
Error exchangeFiles(
    const std::string &directory, const std::vector<HandOverFile> &files,
    function_ref<bool(StringRef)> isOurs,
    function_ref<Error(StringRef)> finish = [](StringRef) { return Error::success(); }) {
  std::string target = exchangePath(directory);
  if (std::error_code failure = sys::fs::create_directories(sys::path::parent_path(target)))
    return cannotWrite(target, failure);
  ExchangeObserver observer;
  Expected<DirectoryExchange> exchange = DirectoryExchange::begin(target, observer);
  if (!exchange)
    return exchange.takeError();
  if (Error error = writeAll(exchange->path(), files))
    return error;
  if (Error error = finish(exchange->path()))
    return error;
  HeldSignals held;
  return exchange->commit(
      [&](StringRef, StringRef path) { return isOurs(path) ? Entry::Replaced : Entry::Kept; });
}
} // namespace

Error writeSlotFiles(const std::string &directory, const std::vector<HandOverFile> &files) {
  return exchangeFiles(directory, files, isSlotPath);
}

Error writeSchedule(const std::string &directory, const Problem &problem, const Schedule &schedule,
                    const RunFacts &facts, const ScheduleWriting &writing) {
  std::vector<HandOverFile> files = handOver(problem, schedule, writing.arguments);
  std::set<std::string> plans; // folders that get a plan
  for (const HandOverFile &file : files)
    if (!writing.planner.empty() && file.job >= 0 && !planningPart(file.text).empty())
      plans.insert((sys::path::parent_path(file.path) + "/plan").str());
  files.push_back({scheduleName, toJson(problem, schedule, facts)});
  if (writing.report)
    files.push_back({reportName, emitScheduleReport(figuresOf(problem, schedule, facts))});
  auto isOurs = [&](StringRef path) {
    StringRef folder = path;
    for (int depth = path.count('/'); depth > 3; --depth)
      folder = sys::path::parent_path(folder);
    return path == scheduleName || path == reportName || isHandOverPath(path) ||
           plans.count(folder.str());
  };
  return exchangeFiles(directory, files, isOurs, [&](StringRef root) {
    return plans.empty() ? Error::success()
                         : ScriptPlanning(problem, root, writing.planner).plan(files);
  });
}

} // namespace heterplan
