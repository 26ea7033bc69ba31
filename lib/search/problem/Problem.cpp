#include "search/problem/Problem.h"

#include "cost/TrafficPrice.h"

#include "cost/IterationRules.h"
#include "ir/sharding/NotWithShards.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t largestBatch = int64_t(1) << 31;

Error verifyLimits(const Request &request) {
  Location place{"", 0, 0, "request"};
  if (request.globalBatch < Samples(1) || request.globalBatch > Samples(largestBatch))
    return Diagnostic(Diag::OutOfRange, place)
           << "a global batch of " << request.globalBatch.value() << " samples; accepted are 1 to "
           << largestBatch;
  for (double limit :
       {request.minThroughput.value(), request.maxCostPerHour.value(),
        request.maxCostPerMillionSamples.value(), request.maxCostPerIteration.value(),
        request.maxIteration.value(), request.maxMemoryFraction})
    if (!std::isfinite(limit) || limit < 0)
      return Diagnostic(Diag::OutOfRange, place)
             << "a limit of " << limit << "; limits are finite and not negative";
  if (request.maxMemoryFraction > 1)
    return Diagnostic(Diag::OutOfRange, place)
           << request.maxMemoryFraction << " of the memory of a device; accepted is at most 1";
  if (double headroom = request.memoryHeadroom.value_or(0); !(headroom >= 0 && headroom < 1))
    return Diagnostic(Diag::OutOfRange, place)
           << "a memory headroom of " << headroom << "; accepted is 0 to below 1";
  if (request.microBatches < 0 || Samples(request.microBatches) > request.globalBatch)
    return Diagnostic(Diag::OutOfRange, place)
           << request.microBatches << " micro-batches of a global batch of "
           << request.globalBatch.value() << " samples; each has one sample at least";
  return Error::success();
}

/// Whether stages may run as asked under the iteration model.
Error verifyWays(const Request &request) {
  bool savesMemory = request.mustRecompute() || request.mustDivideState();
  if (!savesMemory || rulesOf(request.iterationModel).savesMemory())
    return Error::success();
  bool recomputes = request.mustRecompute();
  return Diagnostic(Diag::NotSupported,
                    Location{"", 0, 0, recomputes ? "recompute" : "shard state"})
             .note({}, std::string("use the iteration model '") +
                           nameOf(IterationModel::Synchronous) + "'")
         << (recomputes ? "recomputation" : "sharded state")
         << " is not supported under the iteration model '" << nameOf(request.iterationModel)
         << "'";
}

/// Overlapped transfers are priced and run in pipelines only.
Error verifyTransfers(const Request &request) {
  const bool isPipeline = request.iterationModel == IterationModel::Synchronous &&
                          request.schedule != ScheduleChoice::Burst &&
                          request.amplificationLimit == 0;
  if (!request.overlapsTransfers || isPipeline)
    return Error::success();
  return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "overlap transfers"})
         << "overlap of transfers with computing is not supported in burst or steady-state plans";
}

/// Whether the schedule, the iteration model and the objective belong together.
Error verifySchedule(const Request &request) {
  bool isBurst = request.schedule == ScheduleChoice::Burst;
  if (isBurst != rulesOf(request.iterationModel).stagesShareDevices())
    return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "iteration model"})
               .note({}, "--schedule burst and --iteration-model burst go together")
           << "the iteration model '" << nameOf(request.iterationModel)
           << "' is not supported with " << (isBurst ? "bursts" : "schedules other than burst");
  double limit = request.amplificationLimit;
  bool mayBeBurst = isBurst || (request.schedule == ScheduleChoice::Auto &&
                                request.iterationModel == IterationModel::Synchronous);
  if (limit != 0 && (!mayBeBurst || !std::isfinite(limit) || limit < 1))
    return Diagnostic(Diag::OutOfRange, Location{"", 0, 0, "amplification limit"})
           << "a limit of " << limit << " on the amplification; accepted are limits of at least 1, "
           << "with --schedule burst, or with --schedule auto and the iteration model '"
           << nameOf(IterationModel::Synchronous) << "'";
  if (request.objective == Objective::DeviceSeconds && !isBurst)
    return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "objective"})
               .note({}, "use --schedule burst")
           << "the objective '" << nameOf(request.objective) << "' is supported for bursts only";
  return Error::success();
}

/// Traffic that leaves a zone is charged for boundaries of pipelines only.
Error verifyTraffic(const Problem &problem) {
  const Request &request = problem.request;
  const IterationRules &rules = rulesOf(request.iterationModel);
  const bool mayBeBurst = rules.stagesShareDevices() || request.amplificationLimit > 0;
  if (!chargesTraffic(problem.cluster) || !(mayBeBurst || rules.transfersArePartOfStages()))
    return Error::success();
  return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "price_per_gb"})
             .note({}, "leave price_per_gb out of the cluster file, and add that cost by hand")
         << "price_per_gb of a zone is not supported "
         << (mayBeBurst ? "with bursts"
                        : std::string("under the iteration model '") +
                              nameOf(request.iterationModel) + "'");
}

/// Degrees that differ between stages are searched in synchronous pipelines.
Error verifyDegrees(const Problem &problem) {
  if (problem.request.iterationModel != IterationModel::Synchronous)
    return notWithShards(NotWithShards::UnequalDegreesInSteadyState);
  if (chargesTraffic(problem.cluster))
    return notWithShards(NotWithShards::UnequalDegreesWithTraffic);
  return Error::success();
}

/// Layers of shards are planned on groups of devices, as pipelines.
Error verifyShards(const Problem &problem) {
  const int degree = problem.graph.shardDegree;
  if (degree != problem.cluster.shardDegree)
    return Diagnostic(Diag::InvalidLayerGraph, {problem.graph.model, 0, 0, "shardDegree"})
           << "the layers are those of one of " << degree
           << " devices that share them, and a device of the cluster stands for "
           << problem.cluster.shardDegree;
  if (problem.cluster.hasShardTypes())
    if (Error error = verifyDegrees(problem))
      return error;
  if (degree == 1 && !problem.cluster.hasShardTypes())
    return Error::success();
  if (problem.request.schedule == ScheduleChoice::Burst || problem.request.amplificationLimit > 0)
    return notWithShards(NotWithShards::Bursts);
  if (any_of(problem.graph.layers, [](const Layer &layer) { return !layer.tables.empty(); }))
    return notWithShards(NotWithShards::SparseTables);
  return Error::success();
}

Error verifyLayer(const Problem &problem, const std::string &layer, const Location &place) {
  if (problem.graph.find(layer) >= 0)
    return Error::success();
  return Diagnostic(Diag::UnknownLayer, place)
             .note({}, "'heterplan import' lists the layers of a model")
         << "the model has no layer '" << layer << "'"
         << didYouMean(layer, namesOf(problem.graph.layers));
}

Error verifySets(const Problem &problem, ArrayRef<LayerSet> sets, const char *what) {
  for (const LayerSet &layers : sets) {
    Location place{"", 0, 0, what + (" " + join(layers, ","))};
    for (const std::string &layer : layers)
      if (Error error = verifyLayer(problem, layer, place))
        return error;
    if (std::set<std::string>(layers.begin(), layers.end()).size() < layers.size() ||
        layers.size() < 2)
      return Diagnostic(Diag::OutOfRange, place) << "give at least two layers, each once";
  }
  return Error::success();
}

Error verifyType(const Problem &problem, const std::string &type, const Location &place) {
  if (any_of(problem.cluster.types,
             [&](const DeviceType &each) { return each.ofType < 0 && each.stated() == type; }))
    return Error::success();
  std::vector<std::string> types;
  for (const DeviceType &each : problem.cluster.types)
    if (each.ofType < 0 &&
        (types.empty() ||
         each.stated() != types.back())) // node classes of one type follow each other
      types.push_back(each.stated());
  return Diagnostic(Diag::UnknownDevice, place)
         << "the cluster has no device type '" << type << "'; it has " << join(types, ", ")
         << didYouMean(type, types);
}

Error verifyPins(const Problem &problem) {
  for (const Pin &pin : problem.request.pins) {
    Location place{"", 0, 0, "pin " + pin.layer + "=" + pin.type};
    if (Error error = verifyLayer(problem, pin.layer, place))
      return error;
    const bool isOfGroups = any_of(problem.cluster.types, [&](const DeviceType &each) {
      return each.ofType >= 0 && each.stated() == pin.type;
    });
    if (isOfGroups)
      continue;
    if (Error error = verifyType(problem, pin.type, place))
      return error;
  }
  return Error::success();
}

Error verifyDeviceLimits(const Problem &problem) {
  std::set<std::string> seen;
  for (const DeviceLimit &limit : problem.request.deviceLimits) {
    Location place{"", 0, 0, "max-devices " + limit.type + "=" + std::to_string(limit.most)};
    if (Error error = verifyType(problem, limit.type, place))
      return error;
    if (limit.most < 0 || !seen.insert(limit.type).second)
      return Diagnostic(Diag::OutOfRange, place) << "give one limit for each type, 0 or more";
  }
  return Error::success();
}

/// Removes in-pass all-reduces if each replica normalises by its own samples.
void dropInPassAllReduces(LayerGraph &graph) {
  for (Layer &layer : graph.layers) {
    layer.inPassAllReduces = 0;
    layer.inPassAllReduceBytes = Bytes();
  }
}
} // namespace

DeviceRoom Problem::roomOf(int type) const {
  const DeviceType &device = cluster.types[type];
  Bytes memory = request.ignoreMemory ? Bytes(std::numeric_limits<double>::infinity())
                                      : device.memory * request.memoryPart();
  return {device.overhead.room(memory), device.overhead.workspaceCopies(),
          device.overhead.convolutionCopies()};
}

int Problem::availableDevices(int type) const {
  int count = cluster.deviceCount(type);
  for (const DeviceLimit &limit : request.deviceLimits)
    if (limit.type == cluster.types[cluster.deviceTypeOf(type)].stated())
      count = std::min(count, limit.most / cluster.types[type].shards);
  return count;
}

std::vector<Problem::SharedLimit> Problem::sharedLimits() const {
  std::vector<SharedLimit> shared;
  for (const DeviceLimit &limit : request.deviceLimits) {
    std::vector<int> types = cluster.typesCalled(limit.type);
    int64_t all = 0;
    for (int type : types)
      all += availableDevices(type);
    if (all > limit.most)
      shared.push_back({std::move(types), limit.most});
  }
  return shared;
}

Expected<Problem> Problem::create(LayerGraph graph, Cluster cluster, const CostModel &costs,
                                  Request request) {
  Problem problem{std::move(graph), std::move(cluster), &costs, std::move(request)};
  if (Error error = problem.graph.verify())
    return error;
  if (Error error = problem.cluster.verify())
    return error;
  if (problem.request.batchNorm == BatchNorm::Local)
    dropInPassAllReduces(problem.graph);
  if (!problem.request.memoryHeadroom)
    problem.request.memoryHeadroom = defaultHeadroom(problem.cluster);
  if (Error error = verifyLimits(problem.request))
    return error;
  if (Error error = verifyWays(problem.request))
    return error;
  if (Error error = verifySchedule(problem.request))
    return error;
  if (Error error = verifyTraffic(problem))
    return error;
  if (Error error = verifyTransfers(problem.request))
    return error;
  if (Error error = verifyShards(problem))
    return error;
  if (Error error = verifyPins(problem))
    return error;
  if (Error error = verifyDeviceLimits(problem))
    return error;
  if (Error error = verifySets(problem, problem.request.colocations, "colocate"))
    return error;
  if (Error error = verifySets(problem, problem.request.separations, "separate"))
    return error;
  return problem;
}

} // namespace heterplan
