#include "ir/Constraint.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
struct Hooks {
  decltype(&MemoryConstraint::count) count;
  decltype(&MemoryConstraint::argument) argument;
  decltype(&MemoryConstraint::describe) describe;
  decltype(&MemoryConstraint::drop) drop;
};

constexpr Hooks hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  {enumerator##Constraint::count, enumerator##Constraint::argument,                                \
   enumerator##Constraint::describe, enumerator##Constraint::drop},
#include "ir/Constraints.def"
};

constexpr ConstraintInfo infos[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) {name, degree, devices},
#include "ir/Constraints.def"
};

const Hooks &hooksOf(Constraint constraint) { return hooks[static_cast<int>(constraint.kind)]; }

std::string figure(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.12g", value);
  return text;
}

/// Takes the element at `index` out of `list`.
void takeOut(auto &list, size_t index) { list.erase(list.begin() + ptrdiff_t(index)); }
} // namespace

const ConstraintInfo &infoOf(ConstraintKind kind) { return infos[static_cast<int>(kind)]; }

std::vector<Constraint> constraintsOf(const Request &request) {
  std::vector<Constraint> result;
  for (size_t kind = 0; kind < std::size(hooks); ++kind)
    for (size_t index = 0; index < hooks[kind].count(request); ++index)
      result.push_back({static_cast<ConstraintKind>(kind), index});
  return result;
}

Request without(Request request, ArrayRef<Constraint> dropped) {
  std::vector<Constraint> ordered(dropped.begin(), dropped.end());
  std::sort(ordered.begin(), ordered.end(), // from behind: the others keep their indices
            [](Constraint a, Constraint b) { return a.index > b.index; });
  for (Constraint constraint : ordered)
    hooksOf(constraint).drop(request, constraint.index);
  return request;
}

std::string describe(const Request &request, Constraint constraint) {
  return hooksOf(constraint).describe(request, constraint.index);
}

std::string nameOf(const Request &request, Constraint constraint) {
  std::string argument = hooksOf(constraint).argument(request, constraint.index);
  return infoOf(constraint.kind).name + (argument.empty() ? "" : " " + argument);
}

size_t MemoryConstraint::count(const Request &request) { return !request.ignoreMemory; }
std::string MemoryConstraint::argument(const Request &, size_t) { return ""; }
std::string MemoryConstraint::describe(const Request &, size_t) {
  return "the memory of the devices";
}
void MemoryConstraint::drop(Request &request, size_t) { request.ignoreMemory = true; }

size_t RecomputeConstraint::count(const Request &request) {
  return request.recompute != RecomputePolicy::Auto;
}
std::string RecomputeConstraint::argument(const Request &, size_t) { return ""; }
std::string RecomputeConstraint::describe(const Request &request, size_t) {
  return request.recompute == RecomputePolicy::Never ? "activations that are never computed again"
                                                     : "activations that are always computed again";
}
void RecomputeConstraint::drop(Request &request, size_t) {
  request.recompute = RecomputePolicy::Auto;
}

size_t ShardStateConstraint::count(const Request &request) {
  return request.shardState.has_value();
}
std::string ShardStateConstraint::argument(const Request &, size_t) { return ""; }
std::string ShardStateConstraint::describe(const Request &request, size_t) {
  return request.mustDivideState()
             ? std::string("replicas that divide their ") + partsOf(*request.shardState)
             : "whole state on every replica";
}
void ShardStateConstraint::drop(Request &request, size_t) { request.shardState.reset(); }

size_t PinConstraint::count(const Request &request) { return request.pins.size(); }
std::string PinConstraint::argument(const Request &request, size_t index) {
  return request.pins[index].layer + "=" + request.pins[index].type;
}
std::string PinConstraint::describe(const Request &request, size_t index) {
  return "layer '" + request.pins[index].layer + "' on " + request.pins[index].type;
}
void PinConstraint::drop(Request &request, size_t index) { takeOut(request.pins, index); }

size_t ColocationConstraint::count(const Request &request) { return request.colocations.size(); }
std::string ColocationConstraint::argument(const Request &request, size_t index) {
  return join(request.colocations[index], ",");
}
std::string ColocationConstraint::describe(const Request &request, size_t index) {
  return "layers '" + join(request.colocations[index], "', '") + "' in one stage";
}
void ColocationConstraint::drop(Request &request, size_t index) {
  takeOut(request.colocations, index);
}

size_t SeparationConstraint::count(const Request &request) { return request.separations.size(); }
std::string SeparationConstraint::argument(const Request &request, size_t index) {
  return join(request.separations[index], ",");
}
std::string SeparationConstraint::describe(const Request &request, size_t index) {
  return "layers '" + join(request.separations[index], "', '") + "' in a stage each";
}
void SeparationConstraint::drop(Request &request, size_t index) {
  takeOut(request.separations, index);
}

size_t ScheduleConstraint::count(const Request &request) {
  return request.schedule != ScheduleChoice::Auto;
}
std::string ScheduleConstraint::argument(const Request &, size_t) { return ""; }
std::string ScheduleConstraint::describe(const Request &request, size_t) {
  static constexpr const char *texts[] = {"", "data parallelism, one stage",
                                          "a pipeline of at least two stages",
                                          "stages in turn on one pool of devices"};
  return texts[static_cast<int>(request.schedule)];
}
/// With a burst goes what is asked of bursts only.
void ScheduleConstraint::drop(Request &request, size_t) {
  if (request.schedule == ScheduleChoice::Burst) {
    request.iterationModel = IterationModel::Synchronous;
    request.amplificationLimit = 0;
    if (request.objective == Objective::DeviceSeconds)
      request.objective = Objective::Throughput;
  }
  request.schedule = ScheduleChoice::Auto;
}

size_t MicroBatchesConstraint::count(const Request &request) { return request.microBatches > 0; }
std::string MicroBatchesConstraint::argument(const Request &, size_t) { return ""; }
std::string MicroBatchesConstraint::describe(const Request &request, size_t) {
  return std::to_string(request.microBatches) +
         (request.microBatches == 1 ? " micro-batch" : " micro-batches");
}
void MicroBatchesConstraint::drop(Request &request, size_t) { request.microBatches = 0; }

size_t AmplificationConstraint::count(const Request &request) {
  return request.schedule == ScheduleChoice::Burst && request.amplificationLimit > 0;
}
std::string AmplificationConstraint::argument(const Request &, size_t) { return ""; }
std::string AmplificationConstraint::describe(const Request &request, size_t) {
  return "an amplification of at most " + figure(request.amplificationLimit);
}
void AmplificationConstraint::drop(Request &request, size_t) { request.amplificationLimit = 0; }

size_t BudgetConstraint::count(const Request &request) {
  return request.maxCostPerHour > DollarsPerHour(0);
}
std::string BudgetConstraint::argument(const Request &, size_t) { return ""; }
std::string BudgetConstraint::describe(const Request &request, size_t) {
  return "at most " + figure(request.maxCostPerHour.value()) + " dollars/hour";
}
void BudgetConstraint::drop(Request &request, size_t) {
  request.maxCostPerHour = DollarsPerHour(0);
}

size_t MemoryFractionConstraint::count(const Request &request) {
  return request.maxMemoryFraction > 0 && !request.ignoreMemory;
}
std::string MemoryFractionConstraint::argument(const Request &, size_t) { return ""; }
std::string MemoryFractionConstraint::describe(const Request &request, size_t) {
  return "at most " + figure(request.maxMemoryFraction) + " of the memory of each device";
}
void MemoryFractionConstraint::drop(Request &request, size_t) { request.maxMemoryFraction = 0; }

size_t DeviceLimitConstraint::count(const Request &request) { return request.deviceLimits.size(); }
std::string DeviceLimitConstraint::argument(const Request &request, size_t index) {
  const DeviceLimit &limit = request.deviceLimits[index];
  return limit.type + "=" + std::to_string(limit.most);
}
std::string DeviceLimitConstraint::describe(const Request &request, size_t index) {
  const DeviceLimit &limit = request.deviceLimits[index];
  return "at most " + std::to_string(limit.most) + " devices of type " + limit.type;
}
void DeviceLimitConstraint::drop(Request &request, size_t index) {
  takeOut(request.deviceLimits, index);
}

size_t SampleCostConstraint::count(const Request &request) {
  return request.maxCostPerMillionSamples > Dollars(0);
}
std::string SampleCostConstraint::argument(const Request &, size_t) { return ""; }
std::string SampleCostConstraint::describe(const Request &request, size_t) {
  return "at most " + figure(request.maxCostPerMillionSamples.value()) + " dollars/10^6 samples";
}
void SampleCostConstraint::drop(Request &request, size_t) {
  request.maxCostPerMillionSamples = Dollars(0);
}

size_t IterationCostConstraint::count(const Request &request) {
  return request.maxCostPerIteration > Dollars(0);
}
std::string IterationCostConstraint::argument(const Request &, size_t) { return ""; }
std::string IterationCostConstraint::describe(const Request &request, size_t) {
  return "at most " + figure(request.maxCostPerIteration.value()) + " dollars/iteration";
}
void IterationCostConstraint::drop(Request &request, size_t) {
  request.maxCostPerIteration = Dollars(0);
}

size_t IterationTimeConstraint::count(const Request &request) {
  return request.maxIteration > Seconds(0);
}
std::string IterationTimeConstraint::argument(const Request &, size_t) { return ""; }
std::string IterationTimeConstraint::describe(const Request &request, size_t) {
  return "iterations of at most " + figure(request.maxIteration.value()) + " s";
}
void IterationTimeConstraint::drop(Request &request, size_t) { request.maxIteration = Seconds(0); }

size_t FloorConstraint::count(const Request &request) {
  return request.minThroughput > SamplesPerSecond(0);
}
std::string FloorConstraint::argument(const Request &, size_t) { return ""; }
std::string FloorConstraint::describe(const Request &request, size_t) {
  return "throughput of at least " + figure(request.minThroughput.value()) + " samples/s";
}
void FloorConstraint::drop(Request &request, size_t) {
  request.minThroughput = SamplesPerSecond(0);
}

} // namespace heterplan
