#include "ReplanCandidates.h"
#include "PlanWriting.h"
#include "TensorParallel.h"

#include "ir/PlanShards.h"
#include "search/Assess.h"
#include "search/placement/PlanBuilder.h"
#include "search/placement/StatedPlacement.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
/// One step, in the unit that the objective minimises: a second, a dollar, or a device-second.
double worthOf(const ReplanCandidate &candidate, Seconds time) {
  const Plan &plan = candidate.plan;
  if (plan.objective == Objective::Cost)
    return time.value() * plan.costPerHour.value() / 3600;
  if (plan.objective == Objective::DeviceSeconds)
    return time.value() * double(candidate.devices);
  return time.value();
}

/// The plan of before, and the layers of all degrees, by which state is counted.
struct OldState {
  const Plan &plan;
  const LayerGraph layers;
};

ReplanCandidate candidate(const char *name, Plan plan, const OldState &before, DegreeInputs &own) {
  const Cluster &cluster = own.inputs.problem.cluster;
  const Plan written = withShardDevices(plan, cluster);
  ReplanCandidate result{name, std::move(plan), &own, written.deviceCount()};
  result.moves = stateMoves(before.plan, written, before.layers);
  result.moving = moveTime(result.moves, cluster);
  return result;
}

/// `plan` on the devices that keep most of the state, if its checks hold there.
Expected<ReplanCandidate> kept(const char *name, Plan plan, const OldState &before,
                               DegreeInputs &own) {
  Plan moved = keepDevices(plan, before.plan, before.layers, own.inputs.problem.cluster);
  Expected<const char *> failed = failedCheck(moved, own.inputs);
  if (!failed)
    return failed.takeError();
  if (!*failed)
    return candidate(name, std::move(moved), before, own);
  return candidate(name, std::move(plan), before, own);
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
Expected<std::optional<ReplanCandidate>> ifItHolds(const char *name, Plan plan, double bound,
                                                   const OldState &before, DegreeInputs &own) {
  stateBound(plan, bound);
  Expected<const char *> failed = failedCheck(plan, own.inputs);
  if (!failed)
    return failed.takeError();
  if (*failed)
    return std::nullopt;
  Expected<ReplanCandidate> found = kept(name, std::move(plan), before, own);
  if (!found)
    return found.takeError();
  return std::move(*found);
}

/// Goes on with the stages and the devices that are left. Empty if that is no plan any more.
Expected<std::optional<ReplanCandidate>> oldStages(const Plan &groups, const OldState &before,
                                                   DegreeInputs &own, double bound) {
  const PlanningInputs &inputs = own.inputs;
  std::optional<Plan> left = withoutLostDevices(groups, inputs.problem.cluster);
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
  Expected<Assessment> assessment = assess(inputs.problem, *placement, own.options.strategy, brief);
  if (!assessment) {
    consumeError(assessment.takeError());
    return std::nullopt;
  }
  return ifItHolds("old stages", std::move(assessment->plan), bound, before, own);
}

/// The best plan that leaves each layer on its device type. Empty if there is none.
Expected<std::optional<ReplanCandidate>> oldTypes(const Plan &groups, const OldState &before,
                                                  DegreeInputs &own, double bound) {
  const PlanningInputs &inputs = own.inputs;
  Problem problem = inputs.problem;
  for (const Stage &stage : groups.stages) {
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
  Expected<SearchOutcome> outcome = search(problem, own.options.strategy, inputs.searching);
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan)
    return std::nullopt;
  Plan plan = std::move(*outcome->plan);
  plan.pins = inputs.problem.request.pins;
  return ifItHolds("old device types", std::move(plan), bound, before, own);
}

/// A planner for the degrees that `asked` has.
Expected<std::unique_ptr<DegreePlanner>> plannerFor(const Replanning &asked) {
  PlanningSources sources = asked.sources;
  sources.request.comparesDegrees = asked.options.tensorParallel == "auto";
  std::vector<int> degrees;
  if (sources.request.comparesDegrees) {
    Expected<Cluster> cluster = readWholeCluster(asked.options.costs);
    if (!cluster)
      return cluster.takeError();
    degrees = degreesFor(sources.model.layers, *cluster);
    erase_value(degrees, anyDegree); // their groups are of unlike sizes
  } else {
    Expected<int> degree = readTensorParallel(asked.options.tensorParallel);
    if (!degree)
      return degree.takeError();
    degrees = {*degree};
  }
  return DegreePlanner::create(asked.options, std::move(sources), std::move(degrees),
                               OrderChoice::Given);
}

/// The layers of `model` by the degrees of the plans of before and after.
Expected<LayerGraph> layersOf(const Model &model, const Plan &before, int after) {
  std::vector<int> degrees{shardDegreeOf(before), after};
  sort(degrees);
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return withDegrees(model, degrees,
                     shardDegreeOf(before) > 1 ? before.division.sequence : SequenceParallel::Auto);
}

/// The candidates that keep stages or device types of `asked`.
Error addOld(const Replanning &asked, const OldState &before, ReplanCandidates &found) {
  DegreeInputs *own = found.planner->find(shardDegreeOf(asked.before));
  if (!own)
    return Error::success();
  Expected<Plan> groups = withShardGroups(asked.before);
  if (!groups)
    return groups.takeError();
  const double bound = found.all.front().plan.lowerBound;
  for (auto *make : {&oldStages, &oldTypes}) {
    Expected<std::optional<ReplanCandidate>> old = make(*groups, before, *own, bound);
    if (!old)
      return old.takeError();
    if (*old)
      found.all.push_back(std::move(**old));
  }
  return Error::success();
}
} // namespace

double totalOf(const ReplanCandidate &candidate, int64_t steps) {
  Seconds all = candidate.plan.expectedIteration() * double(steps) + candidate.moving;
  return worthOf(candidate, all);
}

Expected<std::optional<ReplanCandidates>> findReplanCandidates(const Replanning &asked) {
  Expected<std::unique_ptr<DegreePlanner>> planner = plannerFor(asked);
  if (!planner)
    return planner.takeError();
  ReplanCandidates found;
  found.planner = std::move(*planner);
  found.planner->admitUnmeasured(shardDegreeOf(asked.before));
  const std::atomic<bool> never = false;
  Expected<DegreePlan> best = found.planner->plan(never);
  if (!best)
    return best.takeError();
  auto &[own, outcome] = *best;
  if (!outcome.plan)
    return std::nullopt;
  Expected<bool> passes = passesChecks(*outcome.plan, own.inputs, own.options);
  if (!passes)
    return passes.takeError();
  Expected<LayerGraph> layers =
      layersOf(asked.sources.model, asked.before, own.inputs.problem.cluster.shardDegree);
  if (!layers)
    return layers.takeError();
  const OldState before{asked.before, std::move(*layers)};
  Expected<ReplanCandidate> fresh = kept("from nothing", std::move(*outcome.plan), before, own);
  if (!fresh)
    return fresh.takeError();
  found.all.push_back(std::move(*fresh));
  if (Error error = addOld(asked, before, found))
    return error;
  for (size_t i = 1; i < found.all.size(); ++i)
    if (found.all[i].moves.moved <= found.all.front().moves.moved &&
        totalOf(found.all[i], asked.horizon) < totalOf(found.best(), asked.horizon))
      found.chosen = i;
  return std::optional<ReplanCandidates>(std::move(found));
}

int64_t paysAfter(const ReplanCandidates &found) {
  const ReplanCandidate &chosen = found.all[found.chosen];
  const ReplanCandidate *old = found.find("old stages");
  if (!old || chosen.moves.moved <= old->moves.moved)
    return 0;
  double price = worthOf(chosen, chosen.moving) - worthOf(*old, old->moving);
  double gain = worthOf(*old, old->plan.expectedIteration()) -
                worthOf(chosen, chosen.plan.expectedIteration());
  if (price <= 0)
    return 0;
  return gain > 0 ? int64_t(std::ceil(price / gain)) : -1;
}

} // namespace heterplan
