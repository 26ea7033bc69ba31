#include "search/rl/DrawnPlans.h"

#include "ir/AlternativePlan.h"
#include "search/placement/PlanBuilder.h"
#include "search/rl/Learner.h"
#include "search/rl/PretrainedPolicy.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t mostEvaluations = 1500;
constexpr double mostWorse = 0.25;
constexpr size_t mostLookedAt = 400; // of the best assignments

using DeviceCounts = std::map<std::string, int>;
using Cuts = std::vector<int>; // ends of the stages

DeviceCounts devicesOf(const Plan &plan) {
  DeviceCounts counts;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        ++counts[device.type];
  return counts;
}

Cuts cutsOf(const Plan &plan) {
  Cuts ends;
  int end = 0;
  for (const Stage &stage : plan.stages)
    ends.push_back(end += static_cast<int>(stage.layers.size()));
  return ends;
}

/// `placement` as a plan, with `bound` in the units of Plan::objectiveValue.
Expected<Plan> planOf(Evaluator &evaluator, Placement placement, double bound, uint64_t seed) {
  placement = evaluator.simplifyModes(evaluator.shareNodes(std::move(placement)));
  Expected<Plan> plan = PlanBuilder(evaluator, std::move(placement)).build(/*bound=*/0);
  if (!plan)
    return plan;
  bool isMost = plan->objective == Objective::Throughput;
  stateWorth(*plan,
             isMost ? std::max(bound, plan->objectiveValue) : std::min(bound, plan->objectiveValue),
             /*optimal=*/false);
  plan->strategy = "rl-transformer";
  plan->seed = seed;
  return plan;
}
} // namespace

Expected<DrawnPlans> drawPlans(const Problem &problem, const Plan &chosen,
                               const SearchOptions &options, IsNew isNew) {
  Expected<Policy> policy = pretrainedPolicy(options, PolicyKind::Transformer);
  if (!policy)
    return policy.takeError();
  SearchOptions mine = options;
  mine.evaluationLimit = mostEvaluations;
  Evaluator evaluator(problem);
  AssignmentSearch search(evaluator, mine, /*workShare=*/1);
  Learner learner(search, std::move(*policy));
  learner.learn(/*share=*/1, nullptr);
  DrawnPlans result;
  const DeviceCounts devices = devicesOf(chosen);
  const Cuts cuts = cutsOf(chosen);
  for (const TypeAssignment &assignment : search.bestAssignments(mostLookedAt)) {
    if (result.otherDevices && result.otherCuts)
      break;
    std::optional<Placement> placement = search.placementOf(assignment);
    if (!placement)
      continue;
    Expected<Plan> plan = planOf(evaluator, std::move(*placement), chosen.lowerBound, options.seed);
    if (!plan)
      return plan.takeError();
    if (shareWorse(*plan, chosen) > mostWorse)
      break; // as the next ones
    if (!isNew(*plan))
      continue;
    const bool hasOtherDevices = devicesOf(*plan) != devices;
    if (!result.otherCuts && cutsOf(*plan) != cuts && (result.otherDevices || !hasOtherDevices))
      result.otherCuts = std::move(*plan);
    else if (!result.otherDevices && hasOtherDevices)
      result.otherDevices = std::move(*plan);
  }
  if (Error error = evaluator.takeError())
    return error;
  return result;
}

} // namespace heterplan
