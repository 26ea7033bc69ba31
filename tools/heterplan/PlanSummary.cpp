#include "PlanSummary.h"

#include "PlanText.h"
#include "Table.h"
#include "TensorParallel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
/// The device types of all stages: "3×a100 + 8×t4".
std::string allDevicesText(const Plan &plan) {
  std::vector<std::string> types;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        types.push_back(device.type);
  if (!sharesDevices(plan.schedule)) // a device of a burst plan runs several stages
    return countsText(types);
  return std::to_string(plan.deviceCount()) + (plan.deviceCount() == 1 ? " device" : " devices");
}

/// "; nothing was measured, run `heterplan profile`", or the share of the time that was measured.
std::string measuredText(const Plan &plan) {
  double measured = plan.provenance[static_cast<int>(Provenance::Measured)] +
                    plan.provenance[static_cast<int>(Provenance::Interpolated)];
  if (measured <= 0)
    return "nothing was measured, run `heterplan profile`";
  return fixed(100 * measured, 0) + " % of the time is measured";
}

/// The option that sets the constraint which `check` checks, and what it limits.
struct ConstraintText {
  const char *check, *text;
};
constexpr ConstraintText constraintTexts[] = {
    {"memory", "the memory of its fullest device"},
    {"memory-fraction", "--max-memory-fraction"},
    {"throughput-floor", "--min-throughput"},
    {"budget", "--max-cost-per-hour"},
    {"cost-per-million-samples", "--max-cost-per-million-samples"},
    {"cost-per-iteration", "--max-cost-per-iteration"},
    {"iteration-time", "--max-iteration-time"},
    {"max-devices", "--max-devices"},
    {"amplification", "--amplification-limit"},
};

std::string constraintText(StringRef check) {
  for (const ConstraintText &each : constraintTexts)
    if (check == each.check)
      return each.text;
  return check.str();
}

std::string objectiveFact(const Plan &plan) {
  return objectiveText(plan.objective, plan.objectiveValue) + " (" + gapText(plan) + ")";
}

std::string priceFact(const Plan &plan) {
  if (plan.costPerHour <= DollarsPerHour(0))
    return "";
  std::string text = "$" + fixed(plan.costPerHour.value(), 2) + "/h";
  if (plan.objective != Objective::Cost)
    text += ", $" + plain(plan.costPerMillionSamples.value()) + " per 10^6 samples";
  return text;
}

bool liesOnSeveralNodes(const Stage &stage) {
  const std::string &first = stage.replicas.front().devices.front().node;
  return any_of(stage.replicas, [&](const Replica &replica) {
    return any_of(replica.devices, [&](const DeviceRef &device) { return device.node != first; });
  });
}

/// Whether all-reduces between machines, if they began within backward passes, could save 5 % of an
/// iteration.
bool shouldOverlap(const Plan &plan, const Stage &stage) {
  return plan.iterationModel == IterationModel::Synchronous && !plan.overlapsSums &&
         !stage.sharding.scattersGradients() && liesOnSeveralNodes(stage) &&
         stage.sync - stage.update > plan.iteration * 0.05;
}

/// The boundary whose overlapped messages take longer than any stage computes.
std::string slowTransfers(const Plan &plan, Seconds longest) {
  std::string text;
  for (size_t stage = 1; plan.overlapsTransfers && stage < plan.stages.size(); ++stage) {
    const Seconds both = plan.stages[stage].receive + plan.stages[stage - 1].receiveGradient;
    if (both <= longest)
      continue;
    longest = both;
    text = "; messages between stages " + std::to_string(stage - 1) + " and " +
           std::to_string(stage) + " take " + readable(both);
  }
  return text;
}

std::string backgroundFact(const Plan &plan) {
  if (!plan.background)
    return "";
  const BackgroundJob &job = *plan.background;
  if (job.copies.empty())
    return job.model + ": no device has room for a copy in its gaps";
  return job.model + ": " + std::to_string(job.copies.size()) +
         (job.copies.size() == 1 ? " copy, " : " copies, ") + plain(job.rate.value()) +
         " samples/s; it slows the plan down by " + percent(job.predictedSlowdown);
}
} // namespace

std::string gapText(const Plan &plan) {
  if (plan.optimal)
    return "optimal in the search space";
  if (plan.gap >= 1 || plan.lowerBound <= 0)
    return "no useful bound was proven";
  return "at most " + fixed(100 * plan.gap, 2) + " % from the optimum of the search space";
}

std::string iterationText(const Plan &plan) {
  std::string text = readable(plan.iteration);
  if (std::string expected = readable(plan.expectedIteration()); expected != text)
    text += ", expected in a run: " + expected;
  text += " (";
  if (plan.iterationInterval) {
    const auto &[least, most, confidence] = *plan.iterationInterval;
    text += fixed(100 * confidence, 0) + " % interval " + readable(least) + " to " +
            readable(most) + "; ";
  }
  return text + measuredText(plan) + ")";
}

std::string limitText(const Plan &plan, const PlanLimits &limits) {
  const Stage &slowest = bottleneckOf(plan);
  std::string text = plan.stages.size() == 1
                         ? "the only stage"
                         : "stage " + std::to_string(slowest.id) + ", the slowest";
  text += ": " + readable(paceOf(plan, slowest)) + (plan.overlapsTransfers ? " of computing" : "") +
          " a micro-batch";
  text += slowTransfers(plan, paceOf(plan, slowest));
  if (slowest.sync > Seconds(0))
    text += ", then " + readable(slowest.sync) + " of gradient synchronisation";
  if (shouldOverlap(plan, slowest))
    text += " (--overlap-grad-reduce may hide a part of it)";
  if (limits.binding != "bottleneck")
    text += "; " + constraintText(limits.binding) + " (less than 1 % left)";
  return text;
}

void printSummary(raw_ostream &os, const Plan &plan, const PlanLimits &limits) {
  printFact(os, "plan", plan.model + " on " + plan.cluster + ": " + allDevicesText(plan));
  if (std::string text = shardDegreeText(plan); !text.empty())
    printFact(os, "layers", text);
  printFact(os, plan.objective == Objective::Throughput ? "throughput" : nameOf(plan.objective),
            objectiveFact(plan));
  if (plan.objective != Objective::Throughput)
    printFact(os, "throughput", plain(plan.throughput.value()) + " samples/s");
  printFact(os, "iteration", iterationText(plan));
  printFact(os, "batch", batchText(plan));
  printFact(os, "price", priceFact(plan));
  printFact(os, "training", trainingText(plan));
  printFact(os, "background", backgroundFact(plan));
  os << '\n';
  printStages(os, plan);
  os << '\n';
  printFact(os, "limited by", limitText(plan, limits));
}

} // namespace heterplan
