#include "ir/Plan.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

const char *nameOf(Objective objective) {
  static constexpr const char *names[] = {"throughput", "cost", "gpu-seconds"};
  return names[static_cast<int>(objective)];
}

namespace {
constexpr ScheduleInfo scheduleInfos[] = {
#define HETERPLAN_SCHEDULE(enumerator, name, sharesDevices, help) {name, sharesDevices, help},
#include "ir/Schedules.def"
};
} // namespace

ArrayRef<ScheduleInfo> schedules() { return scheduleInfos; }
const char *nameOf(Schedule schedule) { return scheduleInfos[static_cast<int>(schedule)].name; }

const char *nameOf(ScheduleChoice choice) {
  static constexpr const char *names[] = {"auto", "data-parallel", "pipeline", "burst"};
  return names[static_cast<int>(choice)];
}

const char *nameOf(Optimizer optimizer) {
  static constexpr const char *names[] = {"sgd", "momentum", "adam"};
  return names[static_cast<int>(optimizer)];
}

const char *nameOf(OptimizerKernels kernels) {
  return kernels == OptimizerKernels::ForLoop ? "for-loop" : "fused";
}

const char *nameOf(MemoryFormat format) {
  return format == MemoryFormat::ChannelsLast ? "channels-last" : "channels-first";
}

const char *nameOf(Precision precision) {
  static constexpr const char *names[] = {"fp32", "tf32", "bf16", "fp16"};
  return names[static_cast<int>(precision)];
}

namespace {
constexpr IterationModelInfo iterationModelInfos[] = {
#define HETERPLAN_ITERATION_MODEL(enumerator, name, cls, help) {name, help},
#include "ir/IterationModels.def"
};
} // namespace

const char *nameOf(BatchNorm batchNorm) {
  return batchNorm == BatchNorm::Local ? "local" : "synchronised";
}

ArrayRef<IterationModelInfo> iterationModels() { return iterationModelInfos; }
const char *nameOf(IterationModel iterationModel) {
  return iterationModelInfos[static_cast<int>(iterationModel)].name;
}

const char *nameOf(Provenance provenance) {
  static constexpr const char *names[] = {"measured", "interpolated", "regressed", "modelled",
                                          "assumed"};
  return names[static_cast<int>(provenance)];
}

Seconds leastIterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule) {
  Seconds fill{}, slowest{}, slowestForward{}, slowestBackward{}, exposed{};
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    fill += stage->time();
    slowest = std::max(slowest, stage->time());
    slowestForward = std::max(slowestForward, stage->forward);
    slowestBackward = std::max(slowestBackward, stage->backward);
    exposed = std::max(stage->sync, exposed - stage->backward);
  }
  Seconds period = schedule == Schedule::GPipe ? slowestForward + slowestBackward : slowest;
  return fill + period * double(microBatches - 1) + exposed;
}

size_t Stage::deviceCount() const {
  size_t count = 0;
  for (const Replica &replica : replicas)
    count += replica.devices.size();
  return count;
}

size_t Plan::deviceCount() const {
  std::set<DeviceRef> devices;
  for (const Stage &stage : stages)
    for (const Replica &replica : stage.replicas)
      devices.insert(replica.devices.begin(), replica.devices.end());
  return devices.size();
}

Seconds Plan::trainingTime() const {
  if (!training || throughput.value() <= 0)
    return Seconds(0);
  return Seconds(double(training->epochs) * double(training->samples) / throughput.value());
}

std::map<DeviceRef, Bytes> memoryByDevice(const Plan &plan) {
  std::map<DeviceRef, Bytes> result, overheads;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices) {
        result[device] += stage.memory - stage.overhead;
        overheads[device] = std::max(overheads[device], stage.overhead);
      }
  for (auto &[device, bytes] : result)
    bytes += overheads[device];
  return result;
}

} // namespace heterplan
