// heterplan schedule: many jobs on one cluster, over time slots.
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "ScheduleExplain.h"
#include "ScheduleFiles.h"
#include "ScheduleInputs.h"
#include "ScheduleOnline.h"
#include "ScheduleText.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/Progress.h"
#include "support/Suggestion.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>

using namespace heterplan;
using namespace heterplan::jobs;
using namespace llvm;

namespace {

struct ScheduleOptions {
  std::string policy, directory, seed, limits, replan, scale, tries, nodes, explain;
  CostOptions costs;
  ModelOptions reading;
  OnlineOptions online;
  WorkloadOptions workload;
  bool json = false, force = false, noPlans = false;
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
  std::string usual = options.explain.empty() ? "auto" : "pd-ors"; // which has prices to explain
  Expected<size_t> index =
      choiceOption("--policy", options.policy.empty() ? usual : options.policy, names);
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
  Expected<size_t> limits =
      choiceOption("--price-limits", options.limits.empty() ? "load" : options.limits,
                   std::vector<const char *>{"load", "publication"});
  if (!limits)
    return limits.takeError();
  // The proof of the publication is about jobs that keep their plans.
  std::string usualReplan = *limits == 0 && options.explain.empty() ? "total" : "none";
  Expected<size_t> replan =
      choiceOption("--replan", options.replan.empty() ? usualReplan : options.replan,
                   std::vector<const char *>{"none", "ends", "total"});
  if (!replan)
    return replan.takeError();
  if (!options.explain.empty() && *replan != 0)
    return usageError("--replan") << "is none with --explain: re-planning changes what a job met";
  Choice choice;
  choice.name = names[*index];
  choice.policy = makePolicy(choice.name);
  choice.options.seed = uint64_t(*seed);
  choice.options.rounding = {*scale, int(*tries)};
  choice.options.nodeLimit = int(*nodes);
  choice.options.loadPrices = *limits == 0;
  choice.options.replan = Replan(*replan);
  choice.options.clock = steadyTime;
  return choice;
}

Error checkUse(const ScheduleOptions &options) {
  const OnlineOptions &online = options.online;
  for (auto [name, text] : {std::pair("--arrive", &online.arrive),
                            {"--complete", &online.complete},
                            {"--node-down", &online.nodeDown},
                            {"--node-up", &online.nodeUp},
                            {"--at", &online.at},
                            {"--format", &online.format},
                            {"--queue", &online.queue},
                            {"--image", &online.image}})
    if (!text->empty())
      return usageError(name) << "needs --state";
  if (online.wait)
    return usageError("--wait") << "needs --state";
  if (options.costs.cluster.empty())
    return usageError("--cluster") << "is required";
  return Error::success();
}

/// The options with which `compile` reads a job's model in the same way.
std::vector<std::string> compileArguments(const ScheduleOptions &options) {
  std::vector<std::string> arguments;
  auto add = [&](const char *option, const std::vector<std::string> &values, bool arePaths) {
    for (const std::string &value : values) {
      arguments.push_back(option);
      arguments.push_back(arePaths ? absolutePath(value) : value);
    }
  };
  add("--profile", options.costs.profiles, true);
  for (const auto &[option, values] : statedOptions(options.reading))
    add(option, *values, false);
  if (options.costs.requireMeasured)
    arguments.push_back("--require-measured");
  return arguments;
}

/// The program that plans what the scripts of jobs run; "": the scripts do.
std::string plannerOf(const ScheduleOptions &options) {
  return options.noPlans ? "" : executablePath();
}

Expected<ExitStatus> scheduleOnline(const ScheduleOptions &options, const Choice &choice) {
  const WorkloadOptions &workload = options.workload;
  if (!workload.jobs.empty() || !workload.trace.empty() || !workload.generate.empty() ||
      !options.policy.empty() || !options.explain.empty())
    return usageError("--state") << "takes neither JOBS nor --trace, --generate, --policy or "
                                    "--explain; jobs come by --arrive";
  OnlineOptions online = options.online;
  online.slot = workload.slot;
  online.slots = workload.slots;
  online.directory = options.directory;
  online.force = options.force;
  online.planner = plannerOf(options);
  online.arguments = compileArguments(options);
  return heterplan::scheduleOnline(online, options.costs, options.reading, choice.options,
                                   options.json);
}

/// Index of the job called `name`; -1 where none is to be explained.
Expected<int> jobToExplain(const std::string &name, const Choice &choice, const Problem &problem) {
  if (name.empty())
    return -1;
  if (choice.name != "pd-ors" && choice.name != "oasis")
    return usageError("--explain")
           << "goes with --policy pd-ors and oasis; '" << choice.name << "' has no prices";
  std::vector<std::string> names;
  for (int job = 0; job < problem.size(); ++job) {
    if (problem.job(job).name == name)
      return job;
    names.push_back(problem.job(job).name);
  }
  return Diagnostic(Diag::UnknownJob, {"", 0, 0, "--explain"})
         << "there is no job '" << name << "'" << didYouMean(name, names);
}

PolicyResult runPolicy(Choice &choice, const Problem &problem) {
  Progress progress = Progress::onStandardError("scheduling");
  choice.options.progress = [&](double done) { progress.update(done); };
  return choice.policy->run(problem, choice.options);
}

void print(const ScheduleOptions &options, const Problem &problem, const PolicyResult &result,
           const RunFacts &facts) {
  if (result.explanation) {
    const JobPlan &decision = result.schedule[result.explanation->job];
    if (options.json)
      outs() << toJson(problem, *result.explanation, decision);
    else
      printExplanation(outs(), problem, *result.explanation, decision);
  } else if (options.json) {
    outs() << toJson(problem, result.schedule, facts);
  } else {
    printSchedule(outs(), problem, result.schedule, facts);
  }
}

Expected<ExitStatus> schedule(const ScheduleOptions &options) {
  Expected<Choice> choice = readChoice(options);
  if (!choice)
    return choice.takeError();
  if (!options.online.state.empty())
    return scheduleOnline(options, *choice);
  if (Error error = checkUse(options))
    return error;
  if (Error error = checkScheduleDirectory(options.directory, options.force))
    return error;
  Expected<Cluster> cluster = readWholeCluster(options.costs.cluster);
  if (!cluster)
    return cluster.takeError();
  Machines machines(*cluster);
  Expected<Workload> workload = heterplan::readWorkload(options.workload, choice->options.seed,
                                                        machines, options.costs, options.reading);
  if (!workload)
    return workload.takeError();
  if (workload->jobs.empty())
    warnOfNoJobs(options.workload.jobs);
  Expected<Problem> problem = Problem::create(std::move(machines), std::move(*workload));
  if (!problem)
    return problem.takeError();
  Expected<int> explained = jobToExplain(options.explain, *choice, *problem);
  if (!explained)
    return explained.takeError();
  choice->options.explain = *explained;
  PolicyResult result = runPolicy(*choice, *problem);
  double bound = std::isfinite(result.upperBound) ? result.upperBound : utilityUpperBound(*problem);
  applyChoices(*problem, result.schedule);
  RunFacts facts{choice->name, choice->options.seed, bound, result.optimal, result.chosen};
  if (!options.directory.empty())
    if (Error error = writeSchedule(options.directory, *problem, result.schedule, facts,
                                    {compileArguments(options), plannerOf(options)}))
      return error;
  print(options, *problem, result, facts);
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
  addText(*command, "--policy", options->policy, "NAME", "who gets what (auto). " + names);
  addText(*command, "-o,--output", options->directory, "DIR",
          "write schedule.json, report.html and what runs the jobs there");
  addText(*command, "--explain", options->explain, "JOB",
          "pd-ors, oasis: say why this job was admitted or declined, and the prices it met");
  addCostOptions(*command, options->costs);
  command->get_option("--cluster")->required(false); // a state has its own
  addReadingOptions(*command, options->reading);
  beginGroup(*command, "Search");
  addText(*command, "--seed", options->seed, "N", "seed of random numbers (0)");
  addText(
      *command, "--price-limits", options->limits, "NAME",
      "pd-ors: load (default), prices that follow the load of the jobs, or publication, those of "
      "its proof");
  addText(*command, "--replan", options->replan, "NAME",
          "pd-ors: what a new job may do to admitted ones. none: they keep their plans; ends: they "
          "end no later; total (default): they may end later if the total utility gains");
  addText(*command, "--rounding-scale", options->scale, "G",
          "pd-ors: factor on fractional spreads before they are rounded (1)");
  addText(*command, "--rounding-tries", options->tries, "N",
          "pd-ors: how often each is rounded; 0: spreads stay greedy (20)");
  addText(*command, "--node-limit", options->nodes, "N",
          "offline: nodes of branch and bound (20000)");
  beginGroup(*command, "Workload");
  addWorkloadOptions(*command, options->workload);
  beginGroup(*command, "Online decisions");
  addOnlineOptions(*command, options->online);
  beginGroup(*command, "Output");
  command->add_flag("--json", options->json, "print the schedule as JSON");
  command->add_flag("--no-plans", options->noPlans,
                    "with -o: the scripts of jobs plan when they run, not now");
  command->add_flag("--force", options->force, "write into a directory with other files");
  command->callback([options, &action] { action = [options] { return schedule(*options); }; });
}
