#include "ScheduleOnline.h"

#include "Options.h"
#include "ScheduleFiles.h"
#include "ScheduleInputs.h"
#include "Table.h"

#include "search/jobs/SlotLaunch.h"
#include "search/jobs/online/Online.h"
#include "search/jobs/online/SavedJobForm.h"
#include "search/jobs/read/JobsReader.h"
#include "support/DurableFile.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Yaml.h"

#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

#include <cmath>

using namespace llvm;

namespace heterplan {

using namespace jobs;

namespace {
constexpr Seconds lockPatience(60);
constexpr int mostSlots = 1'000'000;

/// A state with its cluster.
struct Session {
  State state;
  Cluster cluster;
};

/// The text of a cluster file or of a bundled cluster.
Expected<std::string> clusterText(StringRef name) {
  Expected<std::string> path = clusterFile(name);
  return path ? readFile(*path, largestYaml) : path.takeError();
}

Expected<Cluster> wholeCluster(StringRef text, StringRef path) {
  Expected<Cluster> cluster = parseCluster(text, path);
  if (!cluster)
    return cluster.takeError();
  Expected<Catalogue> catalogue = readCatalogue();
  if (!catalogue)
    return catalogue.takeError();
  if (Error error = catalogue->resolve(*cluster))
    return error;
  return cluster;
}

Expected<Session> newSession(const OnlineOptions &options, const CostOptions &costs,
                             uint64_t seed) {
  if (costs.cluster.empty())
    return usageError("--cluster").note({}, "'" + options.state + "' is not there yet")
           << "is needed to make a state";
  Expected<std::string> text = clusterText(costs.cluster);
  if (!text)
    return text.takeError();
  Expected<Cluster> cluster = wholeCluster(*text, costs.cluster);
  if (!cluster)
    return cluster.takeError();
  Expected<int64_t> slots = wholeOption("--slots", options.slots, 1000, 1, mostSlots);
  if (!slots)
    return slots.takeError();
  Session session{{}, std::move(*cluster)};
  session.state.clusterText = std::move(*text);
  session.state.slots = int(*slots);
  session.state.seed = seed;
  if (Error error = readSlot(options.slot, "60s", session.state.slot))
    return error;
  return session;
}

/// Fails if an option differs from the one that the state was made with.
Error checkSame(const State &state, const OnlineOptions &options, const CostOptions &costs) {
  Location place{options.state, 0, 0, ""};
  if (!costs.cluster.empty()) {
    Expected<std::string> text = clusterText(costs.cluster);
    if (!text)
      return text.takeError();
    if (*text != state.clusterText)
      return Diagnostic(Diag::StaleState, place)
                 .note({}, "leave --cluster out, or start a new state")
             << "was made for another cluster than " << costs.cluster << " is now";
  }
  if (!options.slot.empty() || !options.slots.empty())
    return usageError(options.slot.empty() ? "--slots" : "--slot")
           << "is settled when a state is made; " << options.state << " is there already";
  return Error::success();
}

Expected<Session> openSession(const OnlineOptions &options, const CostOptions &costs,
                              uint64_t seed) {
  if (!sys::fs::exists(options.state))
    return newSession(options, costs, seed);
  Expected<std::string> text = readFile(options.state, largestState);
  if (!text)
    return text.takeError();
  Expected<State> state = parseState(*text, options.state);
  if (!state)
    return state.takeError();
  if (Error error = checkSame(*state, options, costs))
    return error;
  Expected<Cluster> cluster = wholeCluster(state->clusterText, options.state + " (cluster)");
  if (!cluster)
    return cluster.takeError();
  if (Error error = verify(*state, *cluster))
    return error;
  return Session{std::move(*state), std::move(*cluster)};
}

Error advanceTo(State &state, const std::string &at) {
  Expected<int64_t> slot = wholeOption("--at", at, state.now, 0, mostSlots);
  if (!slot)
    return slot.takeError();
  return advance(state, int(*slot));
}

Expected<std::vector<Outcome>> arriveAll(Session &session, const OnlineOptions &options,
                                         const CostOptions &costs, const ModelOptions &reading,
                                         const PolicyOptions &policy) {
  Expected<Arrivals> arrivals = readArrivals(options.arrive);
  if (!arrivals)
    return arrivals.takeError();
  if (arrivals->jobs.empty() && arrivals->queues.empty())
    warnOfNoJobs(options.arrive);
  if (!arrivals->queues.empty()) {
    session.state.queues = std::move(arrivals->queues);
    if (Error error = verify(session.state, session.cluster))
      return error;
  }
  Workload workload{session.state.slot, session.state.slots, std::move(arrivals->jobs)};
  if (Error error = readModels(workload, options.arrive, costs, reading))
    return error;
  std::vector<Outcome> outcomes;
  for (Job &job : workload.jobs) {
    Expected<Outcome> outcome =
        jobs::arrive(session.state, session.cluster, std::move(job), policy.rounding, options.wait);
    if (!outcome)
      return outcome.takeError();
    outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

Expected<std::vector<Outcome>> act(Session &session, const OnlineOptions &options,
                                   const CostOptions &costs, const ModelOptions &reading,
                                   const PolicyOptions &policy) {
  if (!options.arrive.empty())
    return arriveAll(session, options, costs, reading, policy);
  if (options.complete.empty() && options.nodeDown.empty() && options.nodeUp.empty())
    return std::vector<Outcome>{}; // only -o
  if (!options.nodeDown.empty())
    return nodeDown(session.state, session.cluster, options.nodeDown, policy.rounding);
  if (!options.nodeUp.empty()) {
    if (Error error = nodeUp(session.state, session.cluster, options.nodeUp))
      return error;
    return std::vector<Outcome>{};
  }
  Expected<Outcome> outcome = complete(session.state, options.complete);
  if (!outcome)
    return outcome.takeError();
  return std::vector<Outcome>{std::move(*outcome)};
}

void printJson(const State &state, const std::vector<Outcome> &outcomes) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("now", state.now);
    json.attributeArray("jobs", [&] {
      for (const Outcome &outcome : outcomes)
        json.object([&] {
          json.attribute("job", outcome.job);
          json.attribute("status", outcome.status);
          json.attribute("reason", outcome.reason);
          writeRows(json, "allocations", outcome.rows);
        });
    });
  });
}

void printText(const State &state, const std::vector<Outcome> &outcomes) {
  outs() << "slot " << state.now << '\n';
  if (outcomes.empty())
    outs() << "no job must move\n";
  for (const Outcome &outcome : outcomes) {
    outs() << outcome.job << " is " << outcome.status;
    if (!outcome.reason.empty())
      outs() << ": " << outcome.reason;
    outs() << '\n';
    if (outcome.rows.empty())
      continue;
    Table table({">slot", "node", "device type", ">workers", ">servers"});
    for (const SavedRow &row : outcome.rows)
      table.row({std::to_string(row.slot), row.node, row.type, std::to_string(row.workers),
                 std::to_string(row.servers)});
    table.print(outs());
  }
}

/// Does what is asked. Jobs that wait are decided before those that arrive, and after anything
/// else.
Expected<std::vector<Outcome>> actAndTry(Session &session, const OnlineOptions &options,
                                         const CostOptions &costs, const ModelOptions &reading,
                                         const PolicyOptions &policy) {
  auto actNow = [&] { return act(session, options, costs, reading, policy); };
  auto tryNow = [&] { return tryWaiting(session.state, session.cluster, policy.rounding); };
  const bool arrives = !options.arrive.empty();
  Expected<std::vector<Outcome>> outcomes = arrives ? tryNow() : actNow();
  if (!outcomes)
    return outcomes;
  Expected<std::vector<Outcome>> more = arrives ? actNow() : tryNow();
  if (!more)
    return more;
  append_range(*outcomes, *more);
  return outcomes;
}

/// Whether the format and its options go together.
Error checkFormat(const OnlineOptions &options) {
  if (!options.format.empty() && options.directory.empty())
    return usageError("--format") << "needs -o, the directory of its files";
  if (!options.format.empty())
    if (Expected<size_t> index =
            choiceOption("--format", options.format, std::vector<const char *>{"slurm", "kueue"});
        !index)
      return index.takeError();
  for (auto [name, text] : {std::pair("--queue", &options.queue), {"--image", &options.image}})
    if (!text->empty() && options.format != "kueue")
      return usageError(name) << "goes with --format kueue";
  return options.format.empty() ? checkScheduleDirectory(options.directory, options.force)
                                : checkSlotDirectory(options.directory, options.force);
}

/// Writes what starts the jobs of the present slot.
Error writeSlot(const Session &session, const OnlineOptions &options) {
  Expected<StatePlans> plans = plansOf(session.state, session.cluster);
  if (!plans)
    return plans.takeError();
  const Problem &problem = *plans->problem;
  std::vector<SlotStart> starts = startsIn(problem, plans->schedule, session.state.now);
  for (const SlotStart &start : starts)
    if (problem.job(start.job).command.empty())
      return Diagnostic(Diag::MissingField, {options.state, 0, 0, ""})
                 .note({}, "state what a worker runs as 'command' of the job when it arrives")
             << "job '" << problem.job(start.job).name << "' starts in slot " << session.state.now
             << " and has no command";
  for (const SlotStart &start : starts)
    if (options.format == "kueue" && options.queue.empty() && problem.job(start.job).queue.empty())
      return usageError("--queue") << "is needed with --format kueue: the name of a LocalQueue of "
                                      "the jobs that state no queue";
  std::string image = options.image.empty() ? "pytorch/pytorch:latest" : options.image;
  return writeSlotFiles(options.directory, options.format == "slurm"
                                               ? slurmFiles(problem, starts)
                                               : kueueFiles(problem, starts, options.queue, image));
}

/// Writes the scripts of the jobs that name a model, with a plan for each stretch of slots.
Error writeJobs(const Session &session, const OnlineOptions &options) {
  Expected<StatePlans> plans = plansOf(session.state, session.cluster);
  if (!plans)
    return plans.takeError();
  RunFacts facts{"online", session.state.seed, std::nan(""), false, ""};
  return writeSchedule(options.directory, *plans->problem, plans->schedule, facts,
                       {options.arguments, options.planner, /*report=*/false});
}

Error checkUse(const OnlineOptions &options) {
  if (options.wait && options.arrive.empty())
    return usageError("--wait") << "goes with --arrive";
  int asked = !options.arrive.empty() + !options.complete.empty() + !options.nodeDown.empty() +
              !options.nodeUp.empty();
  if (asked == 1 || (asked == 0 && !options.directory.empty()))
    return Error::success();
  return usageError("--state")
         << "needs one of --arrive, --complete, --node-down, --node-up and -o";
}
} // namespace

void addOnlineOptions(CLI::App &command, OnlineOptions &options) {
  addText(command, "--state", options.state, "FILE",
          "decide online: the state between calls, made from --cluster where it is not there");
  addText(command, "--arrive", options.arrive, "FILE",
          "with --state: a job arrives (one job, or a jobs file)");
  command.add_flag(
      "--wait", options.wait,
      "with --arrive: a job that does not pay yet waits, and later calls try it again");
  addText(command, "--complete", options.complete, "JOB", "with --state: a job is done");
  addText(command, "--node-down", options.nodeDown, "NODE",
          "with --state: a node is gone; says which jobs move where");
  addText(command, "--node-up", options.nodeUp, "NODE",
          "with --state: a node that was down is back, for the jobs that arrive from now on");
  addText(command, "--format", options.format, "NAME",
          "with --state and -o: write what starts the jobs of the slot: slurm (batch scripts) or "
          "kueue (JobSets and flavors)");
  addText(command, "--queue", options.queue, "NAME",
          "with --format kueue: the LocalQueue of the jobs that state no queue");
  addText(command, "--image", options.image, "NAME",
          "with --format kueue: the container image (pytorch/pytorch:latest)");
  addText(command, "--at", options.at, "SLOT", "with --state: the slot it is now");
}

Expected<ExitStatus> scheduleOnline(const OnlineOptions &options, const CostOptions &costs,
                                    const ModelOptions &reading, const PolicyOptions &policy,
                                    bool json) {
  if (Error error = checkUse(options))
    return error;
  if (Error error = checkFormat(options))
    return error;
  Expected<FileLock> lock = FileLock::take(options.state + ".lock", lockPatience);
  if (!lock)
    return lock.takeError();
  Expected<Session> session = openSession(options, costs, policy.seed);
  if (!session)
    return session.takeError();
  if (Error error = advanceTo(session->state, options.at))
    return error;
  Expected<std::vector<Outcome>> outcomes = actAndTry(*session, options, costs, reading, policy);
  if (!outcomes)
    return outcomes.takeError();
  if (!options.directory.empty())
    if (Error error =
            options.format.empty() ? writeJobs(*session, options) : writeSlot(*session, options))
      return error;
  if (Error error = writeDurably(options.state, toJson(session->state)))
    return error;
  (json ? printJson : printText)(session->state, *outcomes);
  return exitDone;
}

} // namespace heterplan
