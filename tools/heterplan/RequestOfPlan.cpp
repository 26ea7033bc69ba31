#include "RequestOfPlan.h"

#include "ir/PlanShards.h"

#include "llvm/Support/Format.h"

using namespace heterplan;
using namespace llvm;

namespace {
/// As it reads back.
std::string exactly(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.17g", value);
  return text;
}
} // namespace

void heterplan::completeFrom(const Plan &plan, CompileOptions &options) {
  auto complete = [](std::string &option, const std::string &value) {
    if (option.empty())
      option = value;
  };
  complete(options.batch, std::to_string(plan.globalBatch.value()));
  complete(options.objective, nameOf(plan.objective));
  complete(options.optimizer, nameOf(plan.optimizer));
  complete(options.optimizerKernels, nameOf(plan.optimizerKernels));
  complete(options.precision, nameOf(plan.precision));
  complete(options.memoryFormat, nameOf(plan.memoryFormat));
  complete(options.batchNorm, nameOf(plan.batchNorm));
  complete(options.iterationModel, nameOf(plan.iterationModel));
  complete(options.recompute, nameOf(plan.recompute));
  if (plan.shardState)
    complete(options.shardState, nameOf(*plan.shardState));
  options.overlapGradReduce |= plan.overlapsSums;
  options.overlapTransfers |= plan.overlapsTransfers;
  complete(options.schedule, nameOf(plan.requestedSchedule));
  if (plan.layerOrder != LayerOrder::Given)
    options.ordered = plan;
  options.dividesByStage |= plan.division.byStage;
  if (int degree = shardDegreeOf(plan); degree > 1 || plan.division.byStage) {
    complete(options.tensorParallel, std::to_string(degree));
    complete(options.sequenceParallel, nameOf(plan.division.sequence));
  }
  if (plan.requestedMicroBatches > 0)
    complete(options.microBatches, std::to_string(plan.requestedMicroBatches));
  auto completeLimit = [&](std::string &option, double limit) {
    if (limit > 0)
      complete(option, exactly(limit));
  };
  completeLimit(options.minThroughput, plan.minThroughput.value());
  completeLimit(options.maxCostPerHour, plan.maxCostPerHour.value());
  completeLimit(options.maxCostPerMillionSamples, plan.maxCostPerMillionSamples.value());
  completeLimit(options.maxCostPerIteration, plan.maxCostPerIteration.value());
  completeLimit(options.maxIterationTime, plan.maxIteration.value());
  completeLimit(options.maxMemoryFraction, plan.maxMemoryFraction);
  if (plan.memoryHeadroom)
    complete(options.memoryHeadroom, exactly(*plan.memoryHeadroom));
}

void heterplan::completeSets(const Plan &plan, Request &request) {
  if (request.pins.empty())
    request.pins = plan.pins;
  if (request.deviceLimits.empty())
    request.deviceLimits = plan.deviceLimits;
  if (request.colocations.empty())
    request.colocations = plan.colocations;
  if (request.separations.empty())
    request.separations = plan.separations;
}
