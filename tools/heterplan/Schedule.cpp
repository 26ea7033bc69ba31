// heterplan schedule: many jobs on one cluster, over time slots.
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "ScheduleInputs.h"
#include "ScheduleOnline.h"
#include "ScheduleText.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/Files.h"
#include "support/Progress.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <chrono>

using namespace heterplan;
using namespace heterplan::jobs;
using namespace llvm;

namespace {

struct ScheduleOptions {
  std::string policy, directory, seed, scale, tries, nodes;
  CostOptions costs;
  ModelOptions reading;
  OnlineOptions online;
  WorkloadOptions workload;
  bool json = false, force = false;
};

/// A policy's name, checked, with its options.
struct Choice {
  std::unique_ptr<Policy> policy;
  std::string name;
  PolicyOptions options;
};

Seconds steadyTime() {
  std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(now.count());
}

Expected<Choice> readChoice(const ScheduleOptions &options) {
  std::vector<const char *> names;
  for (const PolicyInfo &policy : policies())
    names.push_back(policy.name);
  Expected<size_t> index =
      choiceOption("--policy", options.policy.empty() ? names.front() : options.policy, names);
  if (!index)
    return index.takeError();
  Expected<int64_t> seed = wholeOption("--seed", options.seed, 0, 0, INT64_MAX);
  if (!seed)
    return seed.takeError();
  Expected<double> scale = realOption("--rounding-scale", options.scale, 1, 0, false);
  if (!scale)
    return scale.takeError();
  Expected<int64_t> tries = wholeOption("--rounding-tries", options.tries, 20, 0, 10'000);
  if (!tries)
    return tries.takeError();
  Expected<int64_t> nodes = wholeOption("--node-limit", options.nodes, 20'000, 1, 1'000'000'000);
  if (!nodes)
    return nodes.takeError();
  Choice choice;
  choice.name = names[*index];
  choice.policy = makePolicy(choice.name);
  choice.options.seed = uint64_t(*seed);
  choice.options.rounding = {*scale, int(*tries)};
  choice.options.nodeLimit = int(*nodes);
  choice.options.clock = steadyTime;
  return choice;
}

Error checkDirectory(const ScheduleOptions &options) {
  if (options.directory.empty() || options.force || !sys::fs::exists(options.directory))
    return Error::success();
  Location place{options.directory, 0, 0, ""};
  if (!sys::fs::is_directory(options.directory))
    return Diagnostic(Diag::CannotWrite, place) << "is not a directory";
  std::error_code failure;
  sys::fs::directory_iterator first(options.directory, failure), end;
  if (failure || first == end || sys::fs::exists(options.directory + "/schedule.json"))
    return Error::success();
  return Diagnostic(Diag::OutputNotEmpty, place)
             .note({}, "give another directory, or --force to write into this one")
         << "has files and no schedule.json of an earlier run";
}

Error write(const std::string &directory, StringRef text) {
  if (std::error_code failure = sys::fs::create_directories(directory))
    return Diagnostic(Diag::CannotWrite, {directory, 0, 0, ""})
           << "cannot write: " << failure.message();
  SmallString<256> path(directory);
  sys::path::append(path, "schedule.json");
  return writeFile(path, text);
}

Error checkUse(const ScheduleOptions &options) {
  const OnlineOptions &online = options.online;
  for (auto [name, text] : {std::pair("--arrive", &online.arrive),
                            {"--complete", &online.complete},
                            {"--node-down", &online.nodeDown},
                            {"--at", &online.at}})
    if (!text->empty())
      return usageError(name) << "needs --state";
  if (options.costs.cluster.empty())
    return usageError("--cluster") << "is required";
  return Error::success();
}

Expected<ExitStatus> scheduleOnline(const ScheduleOptions &options, const Choice &choice) {
  const WorkloadOptions &workload = options.workload;
  if (!workload.jobs.empty() || !workload.trace.empty() || !workload.generate.empty() ||
      !options.directory.empty() || !options.policy.empty())
    return usageError("--state") << "takes neither JOBS nor --trace, --generate, -o or --policy; "
                                    "jobs come by --arrive";
  OnlineOptions online = options.online;
  online.slot = workload.slot;
  online.slots = workload.slots;
  return heterplan::scheduleOnline(online, options.costs, options.reading, choice.options,
                                   options.json);
}

Expected<ExitStatus> schedule(const ScheduleOptions &options) {
  Expected<Choice> choice = readChoice(options);
  if (!choice)
    return choice.takeError();
  if (!options.online.state.empty())
    return scheduleOnline(options, *choice);
  if (Error error = checkUse(options))
    return error;
  if (Error error = checkDirectory(options))
    return error;
  Expected<Cluster> cluster = readWholeCluster(options.costs.cluster);
  if (!cluster)
    return cluster.takeError();
  Machines machines(*cluster);
  Expected<Workload> workload = heterplan::readWorkload(options.workload, choice->options.seed,
                                                        machines, options.costs, options.reading);
  if (!workload)
    return workload.takeError();
  Expected<Problem> problem = Problem::create(std::move(machines), std::move(*workload));
  if (!problem)
    return problem.takeError();
  PolicyResult result;
  {
    Progress progress = Progress::onStandardError("scheduling");
    choice->options.progress = [&](double done) { progress.update(done); };
    result = choice->policy->run(*problem, choice->options);
  }
  RunFacts facts{choice->name, choice->options.seed, utilityUpperBound(*problem), result.optimal};
  std::string text = toJson(*problem, result.schedule, facts);
  if (!options.directory.empty())
    if (Error error = write(options.directory, text))
      return error;
  if (options.json)
    outs() << text;
  else
    printSchedule(outs(), *problem, result.schedule, facts);
  printDecisions(errs(), result, options.json);
  return exitDone;
}

} // namespace

void heterplan::addSchedule(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("schedule", "share a cluster among many jobs, over time slots");
  auto options = std::make_shared<ScheduleOptions>();
  addArgument(*command, "JOBS", options->workload.jobs, "jobs file (YAML), or a trace")
      ->required(false);
  std::string names;
  for (const PolicyInfo &policy : policies())
    names += (names.empty() ? "" : "; ") + std::string(policy.name) + ": " + policy.help;
  addText(*command, "--policy", options->policy, "NAME", "who gets what (pd-ors). " + names);
  addText(*command, "-o,--output", options->directory, "DIR", "write schedule.json there");
  addCostOptions(*command, options->costs);
  command->get_option("--cluster")->required(false); // a state has its own
  addReadingOptions(*command, options->reading);
  addText(*command, "--seed", options->seed, "N", "of random numbers (0)");
  addText(*command, "--rounding-scale", options->scale, "G",
          "pd-ors: factor on fractional spreads before they are rounded (1)");
  addText(*command, "--rounding-tries", options->tries, "N",
          "pd-ors: how often each is rounded; 0: spreads stay greedy (20)");
  addText(*command, "--node-limit", options->nodes, "N",
          "offline: nodes of branch and bound (20000)");
  addWorkloadOptions(*command, options->workload);
  addOnlineOptions(*command, options->online);
  command->add_flag("--json", options->json, "print the schedule as JSON");
  command->add_flag("--force", options->force, "write into a directory with other files");
  command->callback([options, &action] { action = [options] { return schedule(*options); }; });
}
