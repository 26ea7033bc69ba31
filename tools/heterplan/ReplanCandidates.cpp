#include "ReplanCandidates.h"
#include "PlanWriting.h"

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
double worthOf(const Plan &plan, Seconds time) {
  if (plan.objective == Objective::Cost)
    return time.value() * plan.costPerHour.value() / 3600;
  if (plan.objective == Objective::DeviceSeconds)
    return time.value() * double(plan.deviceCount());
  return time.value();
}

ReplanCandidate candidate(const char *name, Plan plan, const Plan &before,
                          const PlanningInputs &inputs) {
  const Problem &problem = inputs.problem;
  StateMoves moves = stateMoves(before, plan, problem.graph);
  Seconds time = moveTime(moves, problem.cluster);
  return {name, std::move(plan), std::move(moves), time};
}

/// `plan` on the devices that keep most of the state, if its checks hold there.
Expected<ReplanCandidate> kept(const char *name, Plan plan, const Plan &before,
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
Expected<std::optional<ReplanCandidate>> ifItHolds(const char *name, Plan plan, double bound,
                                                   const Plan &before,
                                                   const PlanningInputs &inputs) {
  stateBound(plan, bound);
  Expected<const char *> failed = failedCheck(plan, inputs);
  if (!failed)
    return failed.takeError();
  if (*failed)
    return std::nullopt;
  Expected<ReplanCandidate> found = kept(name, std::move(plan), before, inputs);
  if (!found)
    return found.takeError();
  return std::move(*found);
}

/// Goes on with the stages and the devices that are left. Empty if that is no plan any more.
Expected<std::optional<ReplanCandidate>> oldStages(const Plan &before, PlanningInputs &inputs,
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
Expected<std::optional<ReplanCandidate>> oldTypes(const Plan &before, const PlanningInputs &inputs,
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
} // namespace

double totalOf(const ReplanCandidate &candidate, int64_t steps) {
  Seconds all = candidate.plan.expectedIteration() * double(steps) + candidate.moving;
  return worthOf(candidate.plan, all);
}

Expected<std::optional<ReplanCandidates>> findReplanCandidates(const Plan &before,
                                                               PlanningInputs &inputs,
                                                               const CompileOptions &options,
                                                               int64_t horizon) {
  StringRef strategy = options.strategy;
  Expected<SearchOutcome> outcome = search(inputs.problem, strategy, inputs.searching);
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan)
    return std::nullopt;
  Expected<bool> passes = passesChecks(*outcome->plan, inputs, options);
  if (!passes)
    return passes.takeError();
  Expected<ReplanCandidate> fresh = kept("from nothing", std::move(*outcome->plan), before, inputs);
  if (!fresh)
    return fresh.takeError();
  ReplanCandidates found;
  found.all.push_back(std::move(*fresh));
  double bound = found.all.front().plan.lowerBound;
  Expected<std::optional<ReplanCandidate>> stages = oldStages(before, inputs, strategy, bound);
  if (!stages)
    return stages.takeError();
  if (*stages)
    found.all.push_back(std::move(**stages));
  Expected<std::optional<ReplanCandidate>> types = oldTypes(before, inputs, strategy, bound);
  if (!types)
    return types.takeError();
  if (*types)
    found.all.push_back(std::move(**types));
  for (size_t i = 1; i < found.all.size(); ++i)
    if (found.all[i].moves.moved <= found.all.front().moves.moved &&
        totalOf(found.all[i], horizon) < totalOf(found.all[found.chosen], horizon))
      found.chosen = i;
  return std::optional<ReplanCandidates>(std::move(found));
}

int64_t paysAfter(const ReplanCandidates &found) {
  const ReplanCandidate &chosen = found.all[found.chosen];
  const ReplanCandidate *old = found.find("old stages");
  if (!old || chosen.moves.moved <= old->moves.moved)
    return 0;
  double price = worthOf(chosen.plan, chosen.moving) - worthOf(old->plan, old->moving);
  double gain = worthOf(old->plan, old->plan.expectedIteration()) -
                worthOf(chosen.plan, chosen.plan.expectedIteration());
  if (price <= 0)
    return 0;
  return gain > 0 ? int64_t(std::ceil(price / gain)) : -1;
}

} // namespace heterplan
