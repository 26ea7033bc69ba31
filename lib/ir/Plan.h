// The decision: which stages, on which devices, with which share of the batch, and what that is
// predicted to take and to cost. Plain data; lib/search makes it, everything after reads it.
#pragma once

#include "ir/Cluster.h"
#include "ir/ExecutionMode.h"
#include "ir/LayerOrder.h"
#include "support/Diagnostic.h"
#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// The optimised figure: samples/s, dollars for samples, or the device time of an iteration
/// (Plan::deviceTime).
enum class Objective { Throughput, Cost, DeviceSeconds };
/// Order of the passes: one enumerator for each line of Schedules.def.
enum class Schedule : int {
#define HETERPLAN_SCHEDULE(enumerator, name, sharesDevices, help) enumerator,
#include "ir/Schedules.def"
};
enum class Optimizer { Sgd, Momentum, Adam };
/// How PyTorch updates the parameters of a GPU: one kernel for many of them, or kernels for each,
/// one after another. On a CPU each is updated by itself either way.
enum class OptimizerKernels { Fused, ForLoop };
enum class Precision { Fp32, Tf32, Bf16, Fp16 };
constexpr int precisions = 4; // how many there are
/// Whether autocast computes products in 16 bits.
constexpr bool isHalf(Precision precision) {
  return precision == Precision::Bf16 || precision == Precision::Fp16;
}
/// How the runtime lays out images and filters: NCHW, or NHWC (torch.channels_last).
enum class MemoryFormat { ChannelsFirst, ChannelsLast };
/// Which schedules a user asks for.
enum class ScheduleChoice { Auto, DataParallel, Pipeline, Burst };
/// Whose samples batch normalisation normalises by while it is trained: those of all replicas of
/// its stage, which sum their statistics within each pass, or of each replica its own.
enum class BatchNorm { Synchronised, Local };
/// How stages and iterations are priced: one enumerator for each line of IterationModels.def.
enum class IterationModel : int {
#define HETERPLAN_ITERATION_MODEL(enumerator, name, cls, help) enumerator,
#include "ir/IterationModels.def"
};
const char *nameOf(Objective objective);      // "throughput" | "cost" | "gpu-seconds"
const char *nameOf(Schedule schedule);        // "data-parallel" | "1f1b" | ...
const char *nameOf(ScheduleChoice choice);    // "auto" | "data-parallel" | "pipeline" | "burst"
const char *nameOf(Optimizer optimizer);      // "sgd" | "momentum" | "adam"
const char *nameOf(OptimizerKernels kernels); // "fused" | "for-loop"
const char *nameOf(MemoryFormat format);      // "channels-first" | "channels-last"
const char *nameOf(Precision precision);      // "fp32" | "tf32" | "bf16" | "fp16"
const char *nameOf(BatchNorm batchNorm);      // "synchronised" | "local"
const char *nameOf(IterationModel iterationModel); // "synchronous-1f1b" | ...

struct ScheduleInfo {
  const char *name;
  bool sharesDevices; // a device may run several stages
  const char *help;
};
/// The lines of Schedules.def, in order.
llvm::ArrayRef<ScheduleInfo> schedules();
inline bool sharesDevices(Schedule schedule) {
  return schedules()[static_cast<int>(schedule)].sharesDevices;
}

struct IterationModelInfo {
  const char *name;
  const char *help;
};
/// The lines of IterationModels.def, in order.
llvm::ArrayRef<IterationModelInfo> iterationModels();

/// A group of devices that together process `share` samples of each global batch. Groups have one
/// device so far; nothing may assume it.
struct Replica {
  Samples share{};   // of the global batch; MicroBatches.h says which of each micro-batch
  Seconds forward{}; // of its part of a full one: computing, and Layer::inPassAllReduces
  Seconds backward{};
  std::vector<DeviceRef> devices;
  int64_t mostSamples = 0; // of a full micro-batch, by the memory of its devices; 0: not known
  bool operator==(const Replica &) const = default;
};

/// A sparse table of a stage, split by rows: a device holds rows [Σ of the devices before it, + its
/// own). Tables that lie whole on one device are split as well: all their rows are that device's.
struct TableShards {
  std::string table;         // name of the parameter
  std::vector<int64_t> rows; // of each device of the stage, replica by replica
  bool operator==(const TableShards &) const = default;
};

/// A stage that another follows, and what the second takes to receive from it.
struct StageInput {
  int stage = 0;
  Seconds receive{};         // activations, as Stage::receive
  Seconds receiveGradient{}; // their gradients, by the stage that made them
  bool operator==(const StageInput &) const = default;
};

struct Stage {
  int id = 0;
  std::vector<std::string> layers; // names, contiguous in topological order
  /// The stages that it follows, in their order; empty: the stage before, if any (StageGraph.h).
  std::vector<StageInput> inputs;
  std::vector<Replica> replicas;
  std::vector<TableShards> tables; // of the sparse tables of its layers, in their order
  /// First layers of the segments whose activations are computed again in the backward pass, in
  /// order; empty: all activations are kept.
  std::vector<std::string> recompute;
  StageSharding sharding;
  /// Time of a full micro-batch on the slowest replica, including the receipt of its input (or
  /// gradient).
  Seconds forward{};
  Seconds backward{};
  /// At the end of the iteration: gradient all-reduce and parameter update.
  Seconds sync{};
  Seconds receive{};         // part of `forward`: activations from the stage before
  Seconds receiveGradient{}; // part of `backward`: gradients from the stage after
  Seconds lookup{};          // part of `forward`: rows of the tables from other replicas
  Seconds lookupGradient{};  // part of `backward`: their gradients to the replicas that hold them
  Seconds reduceScatter{};   // part of `backward`: sums of the gradients, where they are sharded
  Seconds gather{};          // part of `forward` and of `backward`: of sharded parameters
  Seconds update{};          // part of `sync`
  Bytes memory{};            // largest need of its devices
  Bytes overhead{};          // part of `memory`: of the process (MemoryOverhead), once a device
  /// Burst plans only: the largest amplification of its layers. The amplification of a layer is its
  /// time on the devices of the stage, times their number, over its time on one device (DeepPool,
  /// section 4).
  double amplification = 0;
  Bytes parameterBytes{};
  bool operator==(const Stage &) const = default;

  Seconds time() const { return forward + backward; }
  /// Without what it receives.
  Seconds computing() const { return time() - receive - receiveGradient; }
  /// Devices of all replicas.
  size_t deviceCount() const;
};

struct Check {
  std::string name;
  bool holds = false;
  double slack = 0; // in the unit of the constraint; how much could be taken away
  std::string unit;
  bool operator==(const Check &) const = default;
};

struct Pin {
  std::string layer, type;
  bool operator==(const Pin &) const = default;
};

/// Names of layers, at least two.
using LayerSet = std::vector<std::string>;

/// The interval that contains a measured time in `confidence` of all cases.
struct TimeInterval {
  Seconds least{}, most{};
  double confidence = 0.9;
  bool operator==(const TimeInterval &) const = default;
};

/// A device of a burst plan on which nothing of it runs for a while, and the memory that the plan
/// never takes there.
struct IdleGap {
  DeviceRef device;
  Seconds start{}, duration{}; // from the beginning of an iteration
  Bytes freeMemory{};
  bool operator==(const IdleGap &) const = default;
};

/// A copy of a background job on one device.
struct BackgroundCopy {
  DeviceRef device;
  SamplesPerSecond rate{}; // predicted
  bool operator==(const BackgroundCopy &) const = default;
};

/// A second job, trained at low priority in the idle gaps of a burst plan (DeepPool, section 5): on
/// each device a copy of its own, which knows nothing of the others. The model's passes go layer by
/// layer, each in a gap that is long enough for it.
struct BackgroundJob {
  std::string model, modelFingerprint;
  Samples batch{};              // of an iteration of a copy
  double maxSlowdown = 0;       // asked for: by which share an iteration of the plan may be longer
  Bytes memory{};               // that a copy needs
  Seconds iteration{};          // of a copy that has a device to itself
  Seconds overrun{};            // by which a pass of a layer may outlast its gap
  double predictedSlowdown = 0; // share by which an iteration of the plan is longer
  SamplesPerSecond rate{};      // of all copies
  SamplesPerSecond clusterThroughput{}; // of the plan beside them, and theirs
  std::vector<BackgroundCopy> copies;   // by device
  bool operator==(const BackgroundJob &) const = default;
};

/// The best plan of one schedule that `auto` compared, bursts or pipelines.
struct Alternative {
  std::string name; // "pipelines" or "burst"
  bool found = false;
  double objectiveValue = 0, lowerBound = 0; // as those of the plan; 0 where none was found
  bool proven = false;                       // that nothing of its kind is better, or exists
  bool operator==(const Alternative &) const = default;
};

/// At most `most` devices of `type`.
struct DeviceLimit {
  std::string type;
  int most = 0;
  bool operator==(const DeviceLimit &) const = default;
};

/// Requirements on a plan's figures and placement (ir/Constraint.h); 0 or empty: none.
struct Requirements {
  SamplesPerSecond minThroughput{};
  DollarsPerHour maxCostPerHour{};
  double amplificationLimit = 0; // of each layer of a burst plan
  Dollars maxCostPerMillionSamples{};
  Dollars maxCostPerIteration{};
  Seconds maxIteration{};
  double maxMemoryFraction = 0; // of the memory of each device, at most 1
  /// Part of the memory of each device that is kept free; none: defaultHeadroom() of the cluster.
  std::optional<double> memoryHeadroom{};
  std::vector<DeviceLimit> deviceLimits;
  std::vector<Pin> pins;             // layer name -> device type
  std::vector<LayerSet> colocations; // the layers of each are in one stage
  std::vector<LayerSet> separations; // no two layers of one are in the same stage
  bool operator==(const Requirements &) const = default;

  /// The part of each device's memory that plans may use.
  double memoryPart() const {
    double part = 1 - memoryHeadroom.value_or(0);
    return maxMemoryFraction > 0 ? std::min(part, maxMemoryFraction) : part;
  }
};

/// Memory of devices of `type` beyond their tensors, as the plan counts it.
struct DeviceMemory {
  std::string type;
  MemoryOverhead overhead;
  bool operator==(const DeviceMemory &) const = default;
};

/// How much is to be trained with a plan.
struct Training {
  int64_t epochs = 0, samples = 0; // samples of one epoch
  bool operator==(const Training &) const = default;
};

/// Stages have whole numbers of devices; the continuous sizes of the same stages bound what that
/// costs.
struct Rounding {
  std::string method;    // "exact", "ceiling", "floor-repair" or "randomised"
  double continuous = 0; // Plan::objectiveValue of the best continuous sizes
  bool operator==(const Rounding &) const = default;
};

/// How closely Amdahl's law meets the prices of the layers on one type, as shares of the prices.
struct FitResiduals {
  std::string type;
  double computeMedian = 0, computeWorst = 0;
  double transferMedian = 0, transferWorst = 0;
  std::string worstLayer; // of the worst residual of all
  bool operator==(const FitResiduals &) const = default;
};

/// The requirements, and what is asked of modes, are those that it was made under.
struct Plan : Requirements, ModeRequest {
  std::string model, modelFingerprint;
  std::string cluster, clusterFingerprint;
  std::vector<std::string> profileFingerprints;
  Samples globalBatch{};
  int microBatches = 1; // at most `globalBatch`
  Schedule schedule = Schedule::DataParallel;
  Optimizer optimizer = Optimizer::Sgd;
  OptimizerKernels optimizerKernels = OptimizerKernels::Fused;
  Precision precision = Precision::Fp32;
  MemoryFormat memoryFormat = MemoryFormat::ChannelsFirst;
  BatchNorm batchNorm = BatchNorm::Synchronised;
  ModelDivision division;
  bool comparesDegrees = false; // the best of plans of several degrees of tensor parallelism
  LayerOrder layerOrder = LayerOrder::Given; // of the layers of `stages`
  IterationModel iterationModel = IterationModel::Synchronous;
  ScheduleChoice requestedSchedule = ScheduleChoice::Auto;
  int requestedMicroBatches = 0; // 0: any number
  std::string strategy;
  uint64_t seed = 0;

  Objective objective = Objective::Throughput;
  /// Samples/s when maximising throughput, dollars per 10^6 samples, or device-seconds.
  double objectiveValue = 0;
  double lowerBound = 0; // proven; an upper bound when maximising
  /// The search space of `lowerBound` and `optimal` (docs/formats.md lists the names), and the
  /// parts of it that the search omitted; "" if unknown.
  std::string searchSpace;
  std::vector<std::string> searchSpaceLimits;
  bool interrupted = false; // the user ended the search
  double gap = 0;           // |objectiveValue − lowerBound| / |objectiveValue|
  bool optimal = false;     // gap 0, proven
  Seconds iteration{};
  /// The expected time of a run. It is `iteration`, less the part of the drain that stages hide
  /// because they run ahead while the pipeline fills (expectedTime). Only synchronous plans of one
  /// stage and of 1F1B have it.
  std::optional<Seconds> expected;
  std::optional<TimeInterval> iterationInterval; // of `expected`
  SamplesPerSecond throughput{};
  DollarsPerHour costPerHour{}; // of devices and traffic
  Dollars trafficCost{};        // of an iteration: what leaves zones that charge for it
  Dollars costPerMillionSamples{};
  /// Burst plans only: Σ over the stages of their devices times the part of an iteration in which
  /// they run.
  Seconds deviceTime{};

  std::vector<Stage> stages;
  std::vector<IdleGap> idle;               // of burst plans, by device and start
  std::optional<BackgroundJob> background; // of burst plans
  std::vector<Alternative> alternatives;   // the plan's own kind among them; empty: not compared
  std::vector<Check> checks;
  std::vector<DeviceMemory> deviceMemory; // by type of the cluster
  /// Share of the predicted time by Provenance; sums to 1.
  std::array<double, provenances> provenance{};

  std::optional<Training> training;
  std::optional<Rounding> rounding; // where the iteration model has continuous sizes
  std::vector<FitResiduals> fits;   // where the iteration model fits layers; by device type

  /// epochs·samples / throughput (HeterPS, section 4), and that at the price of the devices. 0
  /// where no training is stated.
  Seconds trainingTime() const;
  Dollars trainingCost() const { return costPerHour * trainingTime(); }
  /// Devices of all stages; a device that runs several stages counts once.
  size_t deviceCount() const;
  /// The time to compare a measured iteration with.
  Seconds expectedIteration() const { return expected.value_or(iteration); }

  bool operator==(const Plan &) const = default;
  /// Structure only (shares, counts, finite figures); lib/search/verify checks it against inputs.
  llvm::Error verify() const;
};

/// The amount that `plan` spends if spending is minimised: dollars for 10^6 samples, or
/// device-seconds of an iteration (Objective::DeviceSeconds).
inline double spentBy(const Plan &plan, Objective objective) {
  return objective == Objective::Cost ? plan.costPerMillionSamples.value()
                                      : plan.deviceTime.value();
}

/// Memory of `plan` on each device: for all of its stages, and one process.
std::map<DeviceRef, Bytes> memoryByDevice(const Plan &plan);

/// Iteration time of a synchronous pipeline with `microBatches` full micro-batches, by a formula:
///   1F1B (and one stage):  Σ τ_s + (m−1)·max τ_s + exposed synchronisation,  τ_s = forward +
///   backward GPipe:                 Σ τ_s + (m−1)·(max forward + max backward) + exposed
///   synchronisation
/// The first is the usual estimate of synchronous pipelines (Alpa, OSDI 2022, eq. 2). A stage may
/// synchronise while the stages before it drain: R_S = sync_S, R_s = max(sync_s, R_{s+1} −
/// backward_s); exposed = R_1.
/// Exact but for 1F1B with three stages or more, which may take longer than this, never less. Not
/// for schedules in which stages share devices: simulate() in cost/Simulator.h tells their time.
Seconds leastIterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule);

/// Iteration time of the schedule itself, as the simulator finds it (cost/Simulator.h): what a plan
/// states under the synchronous iteration model. A stage without replicas counts as one replica
/// with the stage's times. O(stages · microBatches), less where the pipeline soon runs steadily.
Seconds iterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule);

/// `stages` of 1F1B as they run if transfers overlap: each computes only, and what is received over
/// a boundary, activations in the forward and gradients in the backward pass, is a stage of its own
/// between two. As bytes of both directions take turns there, a run takes no longer.
std::vector<Stage> withTransfersApart(const std::vector<Stage> &stages);

/// The iteration time if the last stage is not held back: each pass of 1F1B begins as soon as its
/// inputs are there, as in a run. The result is at most iterationTime(). For one stage or 1F1B.
Seconds expectedTime(const std::vector<Stage> &stages, int microBatches);

} // namespace heterplan
