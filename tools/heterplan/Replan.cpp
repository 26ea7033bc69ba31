// heterplan replan: a plan for a changed cluster, with a price on the state that has to move.
#include "Commands.h"
#include "Options.h"
#include "PlanText.h"
#include "PlanWriting.h"
#include "RequestOfPlan.h"
#include "Table.h"

#include "ir/PlanShards.h"
#include "ir/sharding/NotWithShards.h"
#include "search/Assess.h"
#include "search/StateMoves.h"
#include "search/placement/PlanBuilder.h"
#include "search/placement/StatedPlacement.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Progress.h"
#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <limits>
#include <set>

using namespace heterplan;
using namespace llvm;

namespace {

struct ReplanOptions {
  std::string plan, horizon, fallbacks;
  CompileOptions compiling; // `model` by --model
  bool json = false;
};

/// A plan that the training could go on with.
struct Candidate {
  const char *name;
  Plan plan;
  StateMoves moves;
  Seconds moving{};
};

/// One step, in the unit that the objective minimises: a second, a dollar, or a device-second.
double worthOf(const Plan &plan, Seconds time) {
  if (plan.objective == Objective::Cost)
    return time.value() * plan.costPerHour.value() / 3600;
  if (plan.objective == Objective::DeviceSeconds)
    return time.value() * double(plan.deviceCount());
  return time.value();
}

/// The worth of so many steps with the candidate, after its state has moved.
double totalOf(const Candidate &candidate, int64_t steps) {
  Seconds all = candidate.plan.expectedIteration() * double(steps) + candidate.moving;
  return worthOf(candidate.plan, all);
}

const char *unitOf(Objective objective) {
  return objective == Objective::Cost            ? "$"
         : objective == Objective::DeviceSeconds ? "device-seconds"
                                                 : "s";
}

Candidate candidate(const char *name, Plan plan, const Plan &before, const PlanningInputs &inputs) {
  const Problem &problem = inputs.problem;
  StateMoves moves = stateMoves(before, plan, problem.graph);
  Seconds time = moveTime(moves, problem.cluster);
  return {name, std::move(plan), std::move(moves), time};
}

/// `plan` on the devices that keep most of the state, if its checks hold there.
Expected<Candidate> kept(const char *name, Plan plan, const Plan &before,
                         const PlanningInputs &inputs) {
  Plan moved = keepDevices(plan, before, inputs.problem.graph, inputs.problem.cluster);
  Expected<const char *> failed = failedCheck(moved, inputs);
  if (!failed)
    return failed.takeError();
  if (!*failed)
    return candidate(name, std::move(moved), before, inputs);
  return candidate(name, std::move(plan), before, inputs);
}

/// States that `plan` is worth at most what the search has proven of all plans: it may lie outside
/// of what was searched, and be better.
void stateBound(Plan &plan, double bound) {
  bool maximised = plan.objective == Objective::Throughput;
  stateWorth(plan, bound, /*optimal=*/false);
  if (maximised ? plan.objectiveValue > bound : plan.objectiveValue < bound)
    stateWorth(plan, plan.objectiveValue, /*optimal=*/false);
}

/// The candidate `plan`, with the proven `bound` stated. Empty if one of its checks fails.
Expected<std::optional<Candidate>> ifItHolds(const char *name, Plan plan, double bound,
                                             const Plan &before, const PlanningInputs &inputs) {
  stateBound(plan, bound);
  Expected<const char *> failed = failedCheck(plan, inputs);
  if (!failed)
    return failed.takeError();
  if (*failed)
    return std::nullopt;
  Expected<Candidate> found = kept(name, std::move(plan), before, inputs);
  if (!found)
    return found.takeError();
  return std::move(*found);
}

/// Goes on with the stages and the devices that are left. Empty if that is no plan any more.
Expected<std::optional<Candidate>> oldStages(const Plan &before, PlanningInputs &inputs,
                                             StringRef strategy, double bound) {
  std::optional<Plan> left = withoutLostDevices(before, inputs.problem.cluster);
  if (!left)
    return std::nullopt;
  Expected<Placement> placement = placementOf(*left, inputs.problem);
  if (!placement) { // of a form that placements do not have
    consumeError(placement.takeError());
    return std::nullopt;
  }
  SearchOptions brief = inputs.searching; // the best plan is known already
  brief.workLimit = 1;
  brief.gap = std::numeric_limits<double>::infinity();
  Expected<Assessment> assessment = assess(inputs.problem, *placement, strategy, brief);
  if (!assessment) {
    consumeError(assessment.takeError());
    return std::nullopt;
  }
  return ifItHolds("old stages", std::move(assessment->plan), bound, before, inputs);
}

/// The best plan that leaves each layer on its device type. Empty if there is none.
Expected<std::optional<Candidate>> oldTypes(const Plan &before, const PlanningInputs &inputs,
                                            StringRef strategy, double bound) {
  Problem problem = inputs.problem;
  for (const Stage &stage : before.stages) {
    std::string type = stage.replicas.front().devices.front().type;
    bool same = all_of(stage.replicas, [&](const Replica &replica) {
      return all_of(replica.devices, [&](const DeviceRef &each) { return each.type == type; });
    });
    if (!same || problem.cluster.typeIndex(type) < 0)
      continue;
    for (const std::string &layer : stage.layers)
      if (none_of(problem.request.pins, [&](const Pin &pin) { return pin.layer == layer; }))
        problem.request.pins.push_back({layer, type});
  }
  Expected<SearchOutcome> outcome = search(problem, strategy, inputs.searching);
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan)
    return std::nullopt;
  Plan plan = std::move(*outcome->plan);
  plan.pins = inputs.problem.request.pins;
  return ifItHolds("old device types", std::move(plan), bound, before, inputs);
}

/// The plans that are compared. The first candidate is the plan from nothing.
struct Candidates {
  std::vector<Candidate> all;
  size_t chosen = 0;
  const Candidate *find(StringRef name) const {
    for (const Candidate &each : all)
      if (name == each.name)
        return &each;
    return nullptr;
  }
};

/// Empty if the search finds no plan from nothing.
Expected<std::optional<Candidates>> findCandidates(const Plan &before, PlanningInputs &inputs,
                                                   const ReplanOptions &options, int64_t horizon) {
  StringRef strategy = options.compiling.strategy;
  Expected<SearchOutcome> outcome = search(inputs.problem, strategy, inputs.searching);
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan)
    return std::nullopt;
  Expected<bool> passes = passesChecks(*outcome->plan, inputs, options.compiling);
  if (!passes)
    return passes.takeError();
  Expected<Candidate> fresh = kept("from nothing", std::move(*outcome->plan), before, inputs);
  if (!fresh)
    return fresh.takeError();
  Candidates found;
  found.all.push_back(std::move(*fresh));
  double bound = found.all.front().plan.lowerBound;
  Expected<std::optional<Candidate>> stages = oldStages(before, inputs, strategy, bound);
  if (!stages)
    return stages.takeError();
  if (*stages)
    found.all.push_back(std::move(**stages));
  Expected<std::optional<Candidate>> types = oldTypes(before, inputs, strategy, bound);
  if (!types)
    return types.takeError();
  if (*types)
    found.all.push_back(std::move(**types));
  for (size_t i = 1; i < found.all.size(); ++i)
    if (found.all[i].moves.moved <= found.all.front().moves.moved &&
        totalOf(found.all[i], horizon) < totalOf(found.all[found.chosen], horizon))
      found.chosen = i;
  return std::optional<Candidates>(std::move(found));
}

/// The number of steps after which moving has paid, against going on with the old stages; −1:
/// never. 0 if moving costs nothing more, or the old stages cannot go on.
int64_t paysAfter(const Candidates &found) {
  const Candidate &chosen = found.all[found.chosen];
  const Candidate *old = found.find("old stages");
  if (!old || chosen.moves.moved <= old->moves.moved)
    return 0;
  double price = worthOf(chosen.plan, chosen.moving) - worthOf(old->plan, old->moving);
  double gain = worthOf(old->plan, old->plan.expectedIteration()) -
                worthOf(chosen.plan, chosen.plan.expectedIteration());
  if (price <= 0)
    return 0;
  return gain > 0 ? int64_t(std::ceil(price / gain)) : -1;
}

void printText(const Plan &before, const Candidates &found, int64_t horizon) {
  const Candidate &chosen = found.all[found.chosen];
  outs() << "\nbefore         " << readable(before.expectedIteration()) << " a step on "
         << before.deviceCount() << " devices\n";
  Table table({"candidate", ">step", ">moves", ">time to move",
               ">" + std::to_string(horizon) + " steps (" + unitOf(chosen.plan.objective) + ")",
               ""});
  for (const Candidate &each : found.all)
    table.row({each.name, readable(each.plan.expectedIteration()), readable(each.moves.moved),
               readable(each.moving), plain(totalOf(each, horizon)),
               &each == &chosen ? "chosen" : ""});
  table.print(outs());
  outs() << "\nstate          " << readable(chosen.moves.moved) << " of "
         << readable(chosen.moves.held) << " move";
  for (const NodeMove &node : chosen.moves.nodes)
    outs() << (&node == &chosen.moves.nodes.front() ? ": " : ", ") << readable(node.bytes) << " to "
           << node.node;
  outs() << "\npays           ";
  int64_t steps = paysAfter(found);
  if (!found.find("old stages"))
    outs() << "at once: the old stages cannot go on\n";
  else if (steps == 0)
    outs() << "at once: moving costs no more than with the old stages\n";
  else if (steps < 0)
    outs() << "never: a step is worth no less with the old stages\n";
  else
    outs() << "after " << steps << " steps\n";
}

void writeJson(const Candidates &found, int64_t horizon) {
  const Candidate &chosen = found.all[found.chosen];
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("chosen", chosen.name);
    json.attribute("horizonSteps", horizon);
    json.attribute("movedBytes", chosen.moves.moved.value());
    json.attribute("heldBytes", chosen.moves.held.value());
    json.attribute("moveSeconds", chosen.moving.value());
    json.attribute("paysAfterSteps", paysAfter(found));
    json.attributeArray("nodes", [&] {
      for (const NodeMove &node : chosen.moves.nodes)
        json.object([&] {
          json.attribute("node", node.node);
          json.attribute("movedBytes", node.bytes.value());
        });
    });
    json.attributeArray("candidates", [&] {
      for (const Candidate &each : found.all)
        json.object([&] {
          json.attribute("name", each.name);
          json.attribute("iterationSeconds", each.plan.iteration.value());
          json.attribute("expectedSeconds", each.plan.expectedIteration().value());
          json.attribute("movedBytes", each.moves.moved.value());
          json.attribute("moveSeconds", each.moving.value());
          json.attribute("total", totalOf(each, horizon));
        });
    });
  });
  outs() << '\n';
}

/// The inputs of a plan like `before` on the cluster of `options`.
Expected<PlanningInputs> readInputs(const Plan &before, ReplanOptions &options) {
  completeFrom(before, options.compiling);
  Expected<Request> request = readRequest(options.compiling);
  if (!request)
    return request.takeError();
  if (shardDegreeOf(before) > 1)
    return notWithShards(NotWithShards::Replan);
  if (before.schedule == Schedule::Burst || request->schedule == ScheduleChoice::Burst)
    return notSupported("replan of bursts");
  completeSets(before, *request);
  Expected<PlanningInputs> inputs = readPlanningInputs(options.compiling, *request);
  if (!inputs)
    return inputs.takeError();
  if (inputs->problem.graph.fingerprint != before.modelFingerprint &&
      inputs->problem.graph.model != before.model)
    return Diagnostic(Diag::StalePlan, {options.plan, 0, 0, ""})
           << "the plan is for the model '" << before.model << "', and " << options.compiling.model
           << " is the model '" << inputs->problem.graph.model << "'";
  return inputs;
}

/// `cluster` without the last `lost` nodes of group `index`. The others keep their names.
Cluster withoutNodes(const Cluster &cluster, size_t index, int lost) {
  Cluster result = cluster;
  NodeGroup group = result.nodes[index];
  result.nodes.erase(result.nodes.begin() + index);
  for (int node = 0; node < group.count - lost; ++node) {
    NodeGroup single = group;
    single.name = nodeName(group, node);
    single.count = 1;
    result.nodes.insert(result.nodes.begin() + index + node, single);
  }
  return result;
}

/// A plan for the loss of some nodes of a group.
struct Fallback {
  std::string directory;
  int lost = 0;
  std::vector<std::string> nodes; // of the group
};

/// The nodes of `group` that `plan` uses.
std::vector<std::string> usedNodes(const Plan &plan, const NodeGroup &group) {
  std::set<std::string> used;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        used.insert(device.node);
  std::vector<std::string> nodes;
  for (int i = 0; i < group.count; ++i)
    if (used.count(nodeName(group, i)))
      nodes.push_back(nodeName(group, i));
  return nodes;
}

Error writeIndex(const std::string &folder, StringRef plan, ArrayRef<Fallback> fallbacks) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("plan", plan);
    json.attributeArray("fallbacks", [&] {
      for (const Fallback &each : fallbacks)
        json.object([&] {
          json.attribute("directory", each.directory);
          json.attribute("lost", int64_t(each.lost));
          json.attributeArray("nodes", [&] {
            for (const std::string &node : each.nodes)
              json.value(node);
          });
        });
    });
  });
  os << '\n';
  return writeFile(folder + "/index.json", os.str());
}

/// Plans for the loss of up to `most` nodes of each group that the plan uses, below `fallbacks` of
/// its directory.
Expected<ExitStatus> prepareFallbacks(const Plan &before, PlanningInputs &inputs,
                                      const ReplanOptions &options, int64_t horizon, int64_t most) {
  const Cluster cluster = inputs.problem.cluster;
  const Request request = inputs.problem.request;
  if (!cluster.links.empty())
    return notSupported("--fallbacks on clusters with 'links'");
  std::string folder = planDirectory(options.plan) + "/fallbacks";
  std::vector<Fallback> fallbacks;
  for (size_t index = 0; index < cluster.nodes.size(); ++index) {
    const NodeGroup &group = cluster.nodes[index];
    std::vector<std::string> nodes = usedNodes(before, group);
    for (int lost = 1; lost <= std::min<int64_t>(most, group.count) && !nodes.empty(); ++lost) {
      std::string name = group.name + "-" + std::to_string(lost);
      Cluster left = withoutNodes(cluster, index, lost);
      if (left.nodes.empty())
        continue;
      Expected<Problem> problem =
          Problem::create(inputs.problem.graph, left, *inputs.costs.model, request);
      if (!problem)
        return problem.takeError();
      inputs.problem = std::move(*problem);
      Expected<std::optional<Candidates>> found = findCandidates(before, inputs, options, horizon);
      if (!found)
        return found.takeError();
      outs() << left_justify(name, 24);
      if (!*found) {
        outs() << "no plan\n";
        continue;
      }
      Candidate &chosen = (*found)->all[(*found)->chosen];
      CompileOptions writing = options.compiling;
      writing.directory = folder + "/" + name;
      if (Error error = writePlan(chosen.plan, inputs, writing, {}))
        return error;
      fallbacks.push_back({name, lost, nodes});
      outs() << readable(chosen.plan.expectedIteration()) << " a step on "
             << chosen.plan.deviceCount() << " devices, " << readable(chosen.moves.moved)
             << " of state move\n";
    }
  }
  Expected<std::string> plan = sha256OfFile(planDirectory(options.plan) + "/plan.json");
  if (!plan)
    return plan.takeError();
  if (fallbacks.empty()) {
    outs() << "no group of nodes can be lost\n";
    return exitInfeasible;
  }
  if (Error error = writeIndex(folder, *plan, fallbacks))
    return error;
  outs() << "\nwrote " << folder << "; next:\n  heterplan run " << planDirectory(options.plan)
         << " --max-restarts 10 --elastic\n";
  return exitDone;
}

Expected<ExitStatus> infeasible(const ReplanOptions &options) {
  if (options.json)
    outs() << "{\"infeasible\": true}\n";
  else
    outs() << "no plan found on this cluster: 'heterplan compile' with the same options says why\n";
  return exitInfeasible;
}

Expected<ExitStatus> replan(ReplanOptions options) {
  Expected<int64_t> horizon = wholeOption("--horizon", options.horizon, 1000, 1, 1'000'000'000);
  if (!horizon)
    return horizon.takeError();
  Expected<int64_t> fallbacks = wholeOption("--fallbacks", options.fallbacks, 0, 1, 1000);
  if (!fallbacks)
    return fallbacks.takeError();
  if (*fallbacks > 0 && (!options.compiling.directory.empty() || options.json))
    return usageError("--fallbacks")
           << "the plans go to the directory of PLAN; leave out -o and --json";
  Expected<Plan> before = readPlanAt(options.plan);
  if (!before)
    return before.takeError();
  if (!options.compiling.directory.empty())
    if (Error error = checkOutput(options.compiling.directory, options.compiling.force))
      return error;
  Expected<PlanningInputs> inputs = readInputs(*before, options);
  if (!inputs)
    return inputs.takeError();
  if (*fallbacks > 0)
    return prepareFallbacks(*before, *inputs, options, *horizon, *fallbacks);
  Expected<std::optional<Candidates>> found = findCandidates(*before, *inputs, options, *horizon);
  if (!found)
    return found.takeError();
  if (!*found)
    return infeasible(options);
  Plan &chosen = (*found)->all[(*found)->chosen].plan;
  Expected<PlanLimits> limits = limitsOf(chosen, *inputs);
  if (!limits)
    return limits.takeError();
  if (!options.compiling.directory.empty())
    if (Error error = writePlan(chosen, *inputs, options.compiling, {{}, {}, nullptr, &*limits}))
      return error;
  if (options.json) {
    writeJson(**found, *horizon);
    return exitDone;
  }
  showPlan(chosen, 1, options.compiling, &*limits);
  printText(*before, **found, *horizon);
  if (!options.compiling.directory.empty())
    outs() << "\nwrote " << options.compiling.directory << "; next:\n  heterplan run "
           << options.compiling.directory << " --resume --checkpoint-dir "
           << planDirectory(options.plan) << "/checkpoints\n";
  return exitDone;
}

} // namespace

void heterplan::addReplan(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("replan", "plan for a changed cluster, with a price on state that moves");
  auto options = std::make_shared<ReplanOptions>();
  addArgument(*command, "PLAN", options->plan, "the plan of before: plan.json or its directory");
  beginGroup(*command, "Input");
  addText(*command, "--model", options->compiling.model, "FILE",
          "the .onnx or .layers.json file of the plan")
      ->required();
  addCostOptions(*command, options->compiling.costs);
  addReadingOptions(*command, options->compiling.reading);
  addText(*command, "--horizon", options->horizon, "STEPS",
          "steps that are still to be trained, over which moving has to pay (1000)");
  addRequestOptions(*command, options->compiling);
  beginGroup(*command, "Output");
  addText(*command, "-o,--output", options->compiling.directory, "DIR",
          "directory for the plan (default: only printed)");
  addText(*command, "--fallbacks", options->fallbacks, "N",
          "prepare plans for the loss of 1 to N nodes of each group, for 'run --elastic'");
  command->add_flag("--force", options->compiling.force,
                    "write among files that heterplan did not write");
  command->add_flag("--json", options->json, "print the candidates as JSON");
  command->callback([options, &action] { action = [options] { return replan(*options); }; });
}
