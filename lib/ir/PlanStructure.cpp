// Plan::verify: what a plan may say by itself, whatever it is for.
#include "ir/MicroBatches.h"
#include "ir/Plan.h"
#include "ir/StageGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t mostSamples = 2147483647;

bool isFigure(double number) { return std::isfinite(number) && number >= 0; }
bool isTime(Seconds time) { return isFigure(time.value()); }
/// Up to rounding.
bool isPart(Seconds part, Seconds whole) {
  return isTime(part) && part.value() <= whole.value() * (1 + 1e-9);
}

Location placeOf(size_t stage) { return {"", 0, 0, "stages[" + std::to_string(stage) + "]"}; }

Error verifyReplica(const Replica &replica, const Location &place) {
  if (replica.share < Samples(1))
    return Diagnostic(Diag::InvalidPlan, place)
           << "the share is " << replica.share.value() << "; a replica has one sample at least";
  if (replica.devices.empty())
    return Diagnostic(Diag::InvalidPlan, place) << "the replica has no devices";
  for (const DeviceRef &device : replica.devices)
    if (device.index < 0 || device.type.empty() || device.node.empty())
      return Diagnostic(Diag::InvalidPlan, place) << "a device lacks type, node or index";
  if (!isTime(replica.forward) || !isTime(replica.backward))
    return Diagnostic(Diag::InvalidPlan, place) << "a time is negative or not finite";
  return Error::success();
}

Error verifyTimes(const Stage &stage, const Location &place) {
  bool hold =
      isTime(stage.forward) && isTime(stage.backward) && isTime(stage.sync) &&
      isTime(stage.receive) && isPart(stage.receive + stage.lookup + stage.gather, stage.forward) &&
      isTime(stage.lookup) && isTime(stage.lookupGradient) && isTime(stage.reduceScatter) &&
      isTime(stage.gather) && isTime(stage.receiveGradient) && isPart(stage.update, stage.sync) &&
      isPart(stage.receiveGradient + stage.lookupGradient + stage.reduceScatter + stage.gather,
             stage.backward) &&
      isFigure(stage.memory.value()) && isFigure(stage.parameterBytes.value()) &&
      isFigure(stage.overhead.value()) && stage.overhead <= stage.memory &&
      isFigure(stage.amplification);
  if (hold)
    return Error::success();
  return Diagnostic(Diag::InvalidPlan, place)
         << "a time or size of the stage is negative, not finite, or greater than the time that "
         << "it is a part of";
}

/// A device runs one stage but where the schedule shares them.
Error verifyStagesApart(const Plan &plan) {
  std::map<DeviceRef, int> stageOf;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices) {
        auto [first, isNew] = stageOf.emplace(device, stage.id);
        if (!isNew && first->second != stage.id)
          return Diagnostic(Diag::InvalidPlan, placeOf(size_t(stage.id)))
                     .note(placeOf(size_t(first->second)), "the other stage")
                 << "device " << device.index << " of type '" << device.type << "' in node '"
                 << device.node << "' is in two stages, and the schedule '" << nameOf(plan.schedule)
                 << "' has one stage for each device; interleaved and burst have several";
      }
  return Error::success();
}

Error verifyDevices(const Stage &stage, const Location &place) {
  std::vector<DeviceRef> devices;
  for (const Replica &replica : stage.replicas)
    devices.insert(devices.end(), replica.devices.begin(), replica.devices.end());
  std::sort(devices.begin(), devices.end());
  auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice == devices.end())
    return Error::success();
  return Diagnostic(Diag::InvalidPlan, place)
         << "device " << twice->index << " of type '" << twice->type << "' in node '" << twice->node
         << "' is used twice";
}

/// Which tables a stage has, and how many rows, only the model can tell.
Error verifyTables(const Stage &stage, const Location &place) {
  size_t devices = stage.deviceCount();
  for (const TableShards &shards : stage.tables) {
    constexpr double mostRows = 1LL << 53;
    bool negative =
        std::any_of(shards.rows.begin(), shards.rows.end(), [](int64_t rows) { return rows < 0; });
    double sum = std::accumulate(shards.rows.begin(), shards.rows.end(), 0.0);
    if (shards.table.empty() || shards.rows.size() != devices || negative || sum > mostRows)
      return Diagnostic(Diag::InvalidPlan, place)
             << "table '" << shards.table << "' has " << shards.rows.size() << " shards on "
             << devices << " devices; accepted is a number of rows for each";
  }
  return Error::success();
}

/// The first segment begins with the stage, the others follow in the order of its layers.
Error verifySegments(const Stage &stage, const Location &place) {
  auto layer = stage.layers.begin();
  for (const std::string &first : stage.recompute) {
    bool begins = &first != &stage.recompute.front() || first == stage.layers.front();
    layer = std::find(layer, stage.layers.end(), first);
    if (!begins || layer == stage.layers.end())
      return Diagnostic(Diag::InvalidPlan, place)
             << "'" << first << "' does not begin a segment that is computed again; accepted are "
             << "layers of the stage in their order, its first one first";
    ++layer;
  }
  return Error::success();
}

Error verifyShardDegree(const Stage &stage, const Location &place) {
  auto differs = [&](const Replica &replica) {
    return stage.sharding.degree > 1 && replica.devices.size() != size_t(stage.sharding.degree);
  };
  if (stage.sharding.degree >= 1 && llvm::none_of(stage.replicas, differs))
    return Error::success();
  return Diagnostic(Diag::InvalidPlan, place)
         << "the shard degree is " << stage.sharding.degree
         << "; accepted is 1, or the number of devices of every replica";
}

/// Checks that the shares add up to the global batch and can be divided into its micro-batches.
Error verifyShares(const Plan &plan, const Stage &stage, const Location &place) {
  int64_t sum = 0;
  for (const Replica &replica : stage.replicas) {
    if (replica.share.value() > plan.globalBatch.value() - sum)
      return Diagnostic(Diag::InvalidPlan, place)
             << "the shares exceed the global batch of " << plan.globalBatch.value();
    sum += replica.share.value();
  }
  if (sum != plan.globalBatch.value())
    return Diagnostic(Diag::InvalidPlan, place)
           << "the shares sum to " << sum << ", not to the global batch of "
           << plan.globalBatch.value();
  MicroBatches microBatches{plan.globalBatch, plan.microBatches};
  auto odd = llvm::count_if(stage.replicas, [&](const Replica &replica) {
    return !microBatches.isMultiple(replica.share);
  });
  if (odd <= 1)
    return Error::success();
  return Diagnostic(Diag::InvalidPlan, place)
         << odd << " replicas have shares that are no multiples of the " << plan.microBatches
         << " micro-batches; accepted is one at most";
}

Error verifyStage(const Plan &plan, size_t index, StringSet<> &layers) {
  const Stage &stage = plan.stages[index];
  Location place = placeOf(index);
  if (stage.id != static_cast<int>(index))
    return Diagnostic(Diag::InvalidPlan, place)
           << "stage " << stage.id << " stands at position " << index;
  if (stage.layers.empty() || stage.replicas.empty())
    return Diagnostic(Diag::InvalidPlan, place)
           << "the stage has no " << (stage.layers.empty() ? "layers" : "replicas");
  for (const std::string &layer : stage.layers)
    if (!layers.insert(layer).second)
      return Diagnostic(Diag::InvalidPlan, place) << "layer '" << layer << "' is placed twice";
  for (size_t i = 0; i < stage.replicas.size(); ++i) {
    Location replicaPlace = place;
    replicaPlace.element += ".replicas[" + std::to_string(i) + "]";
    if (Error error = verifyReplica(stage.replicas[i], replicaPlace))
      return error;
  }
  if (Error error = verifyShares(plan, stage, place))
    return error;
  if (Error error = verifySegments(stage, place))
    return error;
  if (Error error = verifyShardDegree(stage, place))
    return error;
  if (Error error = verifyDevices(stage, place))
    return error;
  if (Error error = verifyTables(stage, place))
    return error;
  return verifyTimes(stage, place);
}

Error verifyFigures(const Plan &plan) {
  struct {
    const char *name;
    double value;
  } figures[] = {{"objectiveValue", plan.objectiveValue},
                 {"lowerBound", plan.lowerBound},
                 {"gap", plan.gap},
                 {"iterationSeconds", plan.iteration.value()},
                 {"expectedSeconds", plan.expectedIteration().value()},
                 {"throughput", plan.throughput.value()},
                 {"costPerHour", plan.costPerHour.value()},
                 {"costPerMillionSamples", plan.costPerMillionSamples.value()},
                 {"trafficCostPerIteration", plan.trafficCost.value()},
                 {"minThroughput", plan.minThroughput.value()},
                 {"maxCostPerHour", plan.maxCostPerHour.value()},
                 {"amplificationLimit", plan.amplificationLimit},
                 {"deviceSeconds", plan.deviceTime.value()},
                 {"maxCostPerMillionSamples", plan.maxCostPerMillionSamples.value()},
                 {"maxCostPerIteration", plan.maxCostPerIteration.value()},
                 {"maxIterationSeconds", plan.maxIteration.value()},
                 {"maxMemoryFraction", plan.maxMemoryFraction}};
  for (const auto &figure : figures)
    if (!isFigure(figure.value))
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, figure.name})
             << "'" << figure.name << "' is negative or not finite";
  for (size_t i = 0; i < plan.idle.size(); ++i) {
    const IdleGap &gap = plan.idle[i];
    if (!isTime(gap.start) || !isTime(gap.duration) || !isFigure(gap.freeMemory.value()))
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "idle[" + std::to_string(i) + "]"})
             << "a figure is negative or not finite";
  }
  if (plan.maxMemoryFraction > 1)
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "maxMemoryFraction"})
           << "'maxMemoryFraction' is " << plan.maxMemoryFraction << "; accepted is at most 1";
  if (plan.memoryHeadroom && !(*plan.memoryHeadroom >= 0 && *plan.memoryHeadroom < 1))
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "memoryHeadroom"})
           << "'memoryHeadroom' is " << *plan.memoryHeadroom << "; accepted is 0 to below 1";
  for (size_t i = 0; i < plan.deviceLimits.size(); ++i)
    if (plan.deviceLimits[i].type.empty() || plan.deviceLimits[i].most < 0)
      return Diagnostic(Diag::InvalidPlan,
                        Location{"", 0, 0, "deviceLimits[" + std::to_string(i) + "]"})
             << "a limit has a device type and a number of them";
  if (const auto &interval = plan.iterationInterval;
      interval && !(isTime(interval->least) && interval->least <= plan.expectedIteration() &&
                    plan.expectedIteration() <= interval->most && isTime(interval->most) &&
                    interval->confidence > 0 && interval->confidence < 1))
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "iterationInterval"})
           << "an interval has its time between 'leastSeconds' and 'mostSeconds', and a confidence "
              "between 0 and 1";
  for (double share : plan.provenance)
    if (!isFigure(share) || share > 1 + 1e-6)
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "provenance"})
             << "shares of the predicted time lie between 0 and 1";
  for (size_t i = 0; i < plan.checks.size(); ++i)
    if (!std::isfinite(plan.checks[i].slack))
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "checks[" + std::to_string(i) + "]"})
             << "the slack of '" << plan.checks[i].name << "' is not finite";
  return Error::success();
}

/// The figures of the background job and of the alternatives.
Error verifyBesides(const Plan &plan) {
  for (const Alternative &alternative : plan.alternatives)
    if (!isFigure(alternative.objectiveValue) || !isFigure(alternative.lowerBound))
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "alternatives"})
             << "a figure of '" << alternative.name << "' is negative or not finite";
  if (!plan.background)
    return Error::success();
  const BackgroundJob &job = *plan.background;
  Location place{"", 0, 0, "background"};
  if (job.batch < Samples(1) || job.batch > Samples(mostSamples))
    return Diagnostic(Diag::InvalidPlan, place)
           << "a batch of " << job.batch.value() << "; accepted are 1 to " << mostSamples;
  bool hold = isTime(job.iteration) && isTime(job.overrun) && isFigure(job.maxSlowdown) &&
              isFigure(job.memory.value()) && isFigure(job.predictedSlowdown) &&
              isFigure(job.rate.value()) && isFigure(job.clusterThroughput.value());
  for (const BackgroundCopy &copy : job.copies)
    hold &= isFigure(copy.rate.value()) && copy.device.index >= 0;
  if (hold)
    return Error::success();
  return Diagnostic(Diag::InvalidPlan, place) << "a figure is negative or not finite";
}

Error verifyBatch(const Plan &plan) {
  int64_t batch = plan.globalBatch.value();
  if (batch < 1 || batch > mostSamples)
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "globalBatch"})
           << "the global batch is " << batch << "; accepted are 1 to " << mostSamples;
  if (!MicroBatches{plan.globalBatch, plan.microBatches}.isValid())
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "microBatches"})
           << plan.microBatches << " micro-batches of a global batch of " << batch
           << "; accepted are 1 to " << batch;
  if (plan.seed > (uint64_t(1) << 53))
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "seed"})
           << "a seed is at most 2^53, so that JSON carries it exactly";
  return Error::success();
}
} // namespace

Error Plan::verify() const {
  if (Error error = verifyBatch(*this))
    return error;
  if (stages.empty())
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "stages"}) << "the plan has no stages";
  if (schedule == Schedule::DataParallel && stages.size() > 1)
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "schedule"})
           << "a data-parallel plan has one stage, not " << stages.size();
  if (overlapsTransfers && schedule != Schedule::DataParallel &&
      schedule != Schedule::OneForwardOneBackward)
    return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "overlapTransfers"})
           << "transfers overlap computing in plans with the schedule '"
           << nameOf(Schedule::OneForwardOneBackward) << "' only";
  StringSet<> layers;
  for (size_t i = 0; i < stages.size(); ++i)
    if (Error error = verifyStage(*this, i, layers))
      return error;
  if (!sharesDevices(schedule))
    if (Error error = verifyStagesApart(*this))
      return error;
  if (Error error = verifyStageGraph(*this))
    return error;
  if (Error error = verifyBesides(*this))
    return error;
  return verifyFigures(*this);
}

} // namespace heterplan
