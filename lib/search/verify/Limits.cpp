// The constraints on the figures of a plan.
#include "search/verify/PlanFigures.h"
#include "search/verify/SharedDevices.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// `value` of the re-evaluated plan is at most `most`.
ConstraintFormula figureAtMost(const CheckInputs &in, const char *name, const char *unit,
                               std::string label, Formula (*value)(const CheckInputs &),
                               double most) {
  ConstraintFormula result{name, unit, Formula::integer(0), {}};
  if (in.reevaluated.obstacle.empty())
    limit(result, std::move(label), value(in), number(most));
  else
    result.parts.push_back(cannotTell(in));
  return result;
}
} // namespace

std::optional<ConstraintFormula> checkFloor(const CheckInputs &in) {
  if (in.plan.minThroughput == SamplesPerSecond(0))
    return std::nullopt;
  ConstraintFormula result{"throughput-floor", "samples/s", Formula::integer(0), {}};
  if (!in.reevaluated.obstacle.empty()) {
    result.parts.push_back(cannotTell(in));
    return result;
  }
  limit(result, "throughput is below " + text(in.plan.minThroughput.value()) + " samples/s",
        number(in.plan.minThroughput), throughput(in));
  return result;
}

std::optional<ConstraintFormula> checkBudget(const CheckInputs &in) {
  if (in.plan.maxCostPerHour == DollarsPerHour(0))
    return std::nullopt;
  ConstraintFormula result{"budget", "dollars/hour", Formula::integer(0), {}};
  Formula cost = Formula::maximum({costPerHour(in), number(in.plan.costPerHour)});
  limit(result,
        "the devices cost more than " + text(in.plan.maxCostPerHour.value()) + " dollars an hour",
        cost, number(in.plan.maxCostPerHour));
  return result;
}

std::optional<ConstraintFormula> checkSampleCost(const CheckInputs &in) {
  double most = in.plan.maxCostPerMillionSamples.value();
  if (most == 0)
    return std::nullopt;
  return figureAtMost(in, "cost-per-million-samples", "dollars/10^6 samples",
                      "a million samples cost more than " + text(most) + " dollars",
                      costPerMillionSamples, most);
}

std::optional<ConstraintFormula> checkIterationCost(const CheckInputs &in) {
  double most = in.plan.maxCostPerIteration.value();
  if (most == 0)
    return std::nullopt;
  return figureAtMost(in, "cost-per-iteration", "dollars/iteration",
                      "an iteration costs more than " + text(most) + " dollars", costPerIteration,
                      most);
}

std::optional<ConstraintFormula> checkIterationTime(const CheckInputs &in) {
  double most = in.plan.maxIteration.value();
  if (most == 0)
    return std::nullopt;
  return figureAtMost(in, "iteration-time", "s",
                      "an iteration takes longer than " + text(most) + " s", iteration, most);
}

std::optional<ConstraintFormula> checkMemoryFraction(const CheckInputs &in) {
  double part = in.plan.maxMemoryFraction;
  if (part == 0)
    return std::nullopt;
  ConstraintFormula result{"memory-fraction", "bytes", Formula::integer(0), {}};
  if (!in.reevaluated.obstacle.empty()) {
    result.parts.push_back(cannotTell(in));
    return result;
  }
  std::vector<Formula> rooms;
  std::set<std::pair<int, Bytes>> seen;
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    for (const ReevaluatedReplica &replica : in.reevaluated.stages[s].replicas) {
      if (!seen.insert({replica.type, replica.need}).second)
        continue;
      const DeviceType &type = in.cluster.types[replica.type];
      ConstraintFormula one;
      limit(one,
            "stage " + std::to_string(s) + " needs " + text(replica.need.value()) + " bytes on " +
                type.name + ", of which it may have " + text(part * type.memory.value()),
            number(replica.need), Formula::product(number(part), number(type.memory)));
      rooms.push_back(one.slack);
      result.parts.push_back(one.parts.front());
    }
  for (Part &each : sharedMemory(in, part, rooms))
    result.parts.push_back(std::move(each));
  if (!rooms.empty())
    result.slack = Formula::minimum(std::move(rooms));
  return result;
}

std::optional<ConstraintFormula> checkDeviceLimit(const CheckInputs &in) {
  if (in.plan.deviceLimits.empty())
    return std::nullopt;
  ConstraintFormula result{"max-devices", "devices", Formula::integer(0), {}};
  std::vector<Formula> rooms;
  for (const DeviceLimit &most : in.plan.deviceLimits) {
    std::set<DeviceRef> used;
    for (const Stage &stage : in.plan.stages)
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices)
          for (const DeviceRef &each : devicesBehind(in.cluster, device))
            if (each.type == most.type)
              used.insert(each);
    Formula count = Formula::integer(int64_t(used.size()));
    rooms.push_back(Formula::difference(Formula::integer(most.most), count));
    result.parts.push_back({std::to_string(used.size()) + " devices of type '" + most.type +
                                "' are used, more than " + std::to_string(most.most),
                            Formula::atMost(count, Formula::integer(most.most))});
  }
  result.slack = Formula::minimum(std::move(rooms));
  return result;
}

} // namespace heterplan
