#include "search/verify/Binding.h"

#include "search/verify/Reevaluation.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
struct Inputs {
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
};

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The least part of the memory that it may use that a device of the plan has left.
Expected<double> memoryLeft(const Plan &plan, const Inputs &in) {
  Expected<Reevaluation> stages = reevaluate(plan, in.graph, in.cluster, in.costs);
  if (!stages)
    return stages.takeError();
  double least = unlimited;
  for (const ReevaluatedStage &stage : stages->stages)
    for (const ReevaluatedReplica &replica : stage.replicas) {
      Bytes memory = in.cluster.types[replica.type].memory * plan.memoryPart();
      least = std::min(least, (memory - replica.need).value() / memory.value());
    }
  return least;
}

/// By how much of its limit `check` holds; infinite where it has no limit.
Expected<double> relativeSlack(const Check &check, const Plan &plan, const Inputs &in) {
  if (check.name == (plan.maxMemoryFraction > 0 ? "memory-fraction" : "memory"))
    return memoryLeft(plan, in);
  if (check.name == "throughput-floor")
    return check.slack / plan.minThroughput.value();
  if (check.name == "budget")
    return check.slack / plan.maxCostPerHour.value();
  if (check.name == "cost-per-million-samples")
    return check.slack / plan.maxCostPerMillionSamples.value();
  if (check.name == "cost-per-iteration")
    return check.slack / plan.maxCostPerIteration.value();
  if (check.name == "iteration-time")
    return check.slack / plan.maxIteration.value();
  if (check.name == "max-devices") // which go one by one
    return check.slack > 0 ? unlimited : check.slack;
  return unlimited;
}
} // namespace

Expected<PlanLimits> limitsOf(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                              const CostModel &costs) {
  constexpr double close = 0.01;
  PlanLimits result{"bottleneck", bottleneckOf(plan).id};
  double least = close;
  for (const Check &check : plan.checks) {
    if (!check.holds)
      return PlanLimits{check.name, result.bottleneckStage};
    Expected<double> slack = relativeSlack(check, plan, {graph, cluster, costs});
    if (!slack)
      return slack.takeError();
    if (*slack < least) {
      least = *slack;
      result.binding = check.name;
    }
  }
  return result;
}

} // namespace heterplan
