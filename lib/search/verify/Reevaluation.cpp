#include "search/verify/Reevaluation.h"

#include "cost/HeterPs.h"
#include "cost/Uncertainty.h"
#include "ir/MicroBatches.h"
#include "search/verify/IterationFacts.h"
#include "search/verify/RequestedPlan.h"
#include "search/verify/ScheduledTime.h"
#include "search/verify/SharedDevices.h"
#include "search/verify/StageMemoryReevaluation.h"
#include "search/verify/StageReader.h"
#include "search/verify/TransferReevaluation.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double mostPasses = 1 << 24;
constexpr double mostAmplification = 1e9; // of a layer that takes no time on one device

class Reevaluator {
public:
  Reevaluator(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
              const CostModel &costs)
      : plan(plan), graph(graph), cluster(cluster), costs(costs), cuts(graph.cuts()) {
    for (const DeviceType &type : cluster.types)
      if (type.shards > 1 && !ofShards.count(type.shards))
        ofShards.emplace(type.shards, graph.ofDegree(type.shards));
  }

  Expected<Reevaluation> run();

private:
  /// The devices that each device of `stage` stands for.
  int degreeOf(const Stage &stage) const {
    if (stage.replicas.empty() || stage.replicas.front().devices.empty())
      return 1;
    const int type = cluster.typeIndex(stage.replicas.front().devices.front());
    return type < 0 ? 1 : cluster.types[type].shards;
  }
  const LayerGraph &layersOf(int degree) const { return degree == 1 ? graph : ofShards.at(degree); }
  Error price(ReevaluatedStage &facts) const;
  Expected<ReevaluatedReplica> priceRange(const ReevaluatedStage &facts, int type,
                                          Samples samples) const;
  void addOrigin(const LayerCost &cost, const ReevaluatedStage &facts,
                 ReevaluatedReplica &replica) const;
  Error addAmplification(std::vector<ReevaluatedStage> &stages) const;
  Expected<Seconds> timeOf(int layer, int type, Samples samples) const;
  Expected<Seconds> slowestTimeOf(int layer, const ReevaluatedStage &facts) const;
  Expected<int> fastestType(const std::vector<ReevaluatedStage> &stages) const;
  Bytes denseBytesOf(int layer, const ReevaluatedStage &facts) const;
  Seconds exposedSum(const ReevaluatedStage &facts) const;
  void addLookups(ReevaluatedStage &facts) const;
  void addTimes(ReevaluatedStage &facts, const Stage &stated, bool isLast) const;
  Error addSteadyTimes(std::vector<ReevaluatedStage> &stages) const;
  void schedulePasses(Reevaluation &result) const;

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  std::vector<Cut> cuts;
  std::map<int, LayerGraph> ofShards; // by degree
};

void Reevaluator::addOrigin(const LayerCost &cost, const ReevaluatedStage &facts,
                            ReevaluatedReplica &replica) const {
  double passes = plan.microBatches, again = facts.segments.empty() ? 0 : passes;
  double updates = facts.updatesSlices ? 1.0 / double(facts.replicas.size()) : 1;
  size_t origin = static_cast<size_t>(cost.provenance);
  double forwards = passes * cost.forward.value();
  double backwards =
      again * cost.forward.value() + passes * cost.backward.value() + updates * cost.update.value();
  double halfWidth = halfWidthOf(cost);
  replica.forwards[origin] += forwards;
  replica.forwards.back() += forwards * halfWidth;
  replica.backwards[origin] += backwards;
  replica.backwards.back() += backwards * halfWidth;
}

Expected<ReevaluatedReplica> Reevaluator::priceRange(const ReevaluatedStage &facts, int type,
                                                     Samples samples) const {
  ReevaluatedReplica result{type, samples, {}, {}, {}, {}, {}, {}};
  double added = double(plan.microBatches - 1) / plan.microBatches; // gradients, a backward pass
  for (int i = facts.begin; i < facts.end; ++i) {
    Expected<LayerCost> cost = costs.price(graph.layers[i], cluster.types[type], samples);
    if (!cost)
      return cost.takeError();
    result.forward += cost->forward;
    result.backwardBefore.push_back(result.backward);
    result.backward += cost->backward + cost->accumulate * added;
    result.update += cost->update;
    addOrigin(*cost, facts, result);
  }
  if (!facts.segments.empty()) // the sums of the first pass serve again
    result.backward += result.forward;
  if (facts.updatesSlices)
    result.update = result.update / double(facts.replicas.size());
  result.forward += facts.summing + facts.gather;
  result.backward += facts.summing + facts.gather;
  result.backward += facts.reduceScatter;
  return result;
}

Error Reevaluator::price(ReevaluatedStage &facts) const {
  CollectiveCost reduce = allReduceCost(cluster, facts.group);
  facts.summing = reduce.time(facts.sums, facts.summedBytes);
  facts.reduceOrigin = reduce.provenance;
  if (facts.gathersParameters) { // each layer by itself, half of an all-reduce each way
    for (const GatheredLayer &layer : facts.gathered)
      facts.gather += reduce.time(layer.count, layer.bytes) / 2;
    facts.reduceScatter = facts.gather;
  } else if (facts.scattersGradients) { // half of an all-reduce
    facts.reduceScatter = allReduceTime(cluster, facts.group, facts.denseBytes) / 2;
  }
  std::map<std::pair<int, Samples>, ReevaluatedReplica> priced;
  for (ReevaluatedReplica &replica : facts.replicas) {
    std::pair key(replica.type, replica.samples);
    auto known = priced.find(key);
    if (known == priced.end()) {
      Expected<ReevaluatedReplica> fresh = priceRange(facts, replica.type, replica.samples);
      if (!fresh)
        return fresh.takeError();
      known = priced.emplace(key, *fresh).first;
    }
    replica = known->second;
    facts.update = std::max(facts.update, replica.update);
  }
  return Error::success();
}

/// Dense parameters of a layer, with the tied ones that count there.
Bytes Reevaluator::denseBytesOf(int layer, const ReevaluatedStage &facts) const {
  auto copied = facts.copies.find(layer);
  return layersOf(cluster.types[facts.group.counts.front().first].shards)
             .layers[layer]
             .denseBytes() +
         (copied == facts.copies.end() ? Bytes() : copied->second);
}

/// The all-reduce of a stage that begins within its last backward pass, from the end of that pass
/// on. A layer's gradients wait for its own backward pass, and all that came before them has been
/// sent by then at best; the first replica that has made all gradients gives no more time.
/// Gradients that were sent have held that pass up.
Seconds Reevaluator::exposedSum(const ReevaluatedStage &facts) const {
  Seconds latest{};
  Bytes waiting{}, sent{};
  for (int layer = facts.begin; layer < facts.end; ++layer)
    sent += denseBytesOf(layer, facts);
  const CollectiveCost cost = allReduceCost(cluster, facts.group);
  for (int layer = facts.begin; layer < facts.end; ++layer) {
    waiting += denseBytesOf(layer, facts);
    sent -= denseBytesOf(layer, facts);
    Seconds sum = cost.time(waiting) + cost.lost(sent);
    for (const ReevaluatedReplica &replica : facts.replicas)
      latest = std::max(latest, sum - replica.backwardBefore[size_t(layer - facts.begin)]);
  }
  return latest;
}

/// Rows exchanged among the replicas; as much as the one with most samples reads.
void Reevaluator::addLookups(ReevaluatedStage &facts) const {
  TableRows rows = facts.lookups * double(facts.mostSamples.value());
  CollectiveCost lookup = lookupCost(cluster, facts.group);
  facts.lookup = lookup.time(rows);
  facts.lookupOrigin = lookup.provenance;
  facts.lookupGradient = lookupGradientCost(cluster, facts.group).time(rows);
}

/// The boundary behind a stage is a barrier, so its passes last as long as the slowest replica of
/// each; the last stage turns round at once, so there it is the replica with the slowest sum. Among
/// equally slow ones the plan may name any.
void Reevaluator::addTimes(ReevaluatedStage &facts, const Stage &stated, bool isLast) const {
  Seconds forward{}, backward{};
  for (const ReevaluatedReplica &replica : facts.replicas) {
    Seconds gain = replica.forward + replica.backward - forward - backward;
    Seconds tie = (forward + backward) * 1e-9;
    if (!isLast) {
      forward = std::max(forward, replica.forward);
      backward = std::max(backward, replica.backward);
      continue;
    }
    auto distance = [&](Seconds time) {
      return std::abs((time + facts.receive + facts.lookup - stated.forward).value());
    };
    if (gain > tie || (gain >= Seconds(0) - tie && distance(replica.forward) < distance(forward))) {
      forward = replica.forward;
      backward = replica.backward;
    }
  }
  facts.forward = facts.receive + facts.lookup + forward;
  facts.backward = facts.receiveGradient + facts.lookupGradient + backward;
  facts.sync = facts.update;
  if (facts.gathersParameters) {
    facts.sync += allReduceTime(cluster, facts.group, facts.wholeBytes);
  } else if (facts.replicas.size() > 1) { // what was scattered is only gathered
    Seconds whole = allReduceTime(cluster, facts.group, facts.denseBytes);
    if (plan.overlapsSums && !facts.updatesSlices)
      whole = exposedSum(facts);
    facts.sync += facts.scattersGradients ? whole / 2 : whole;
  }
  if (facts.tiedOutside != Bytes(0))
    facts.sync += tiedSumCost(cluster, facts.group).time(facts.tiedOutside);
}

/// The time of `layer` in an iteration with `samples` of each micro-batch on one device.
Expected<Seconds> Reevaluator::timeOf(int layer, int type, Samples samples) const {
  Expected<LayerCost> cost = costs.price(graph.layers[layer], cluster.types[type], samples);
  if (!cost)
    return cost.takeError();
  double m = plan.microBatches;
  return (cost->forward + cost->backward) * m + cost->accumulate * (m - 1) + cost->update;
}

/// The type of the plan on which the whole model takes least with the whole batch; of several that
/// take the same but for rounding the first by name.
Expected<int> Reevaluator::fastestType(const std::vector<ReevaluatedStage> &stages) const {
  std::set<int> types;
  for (const ReevaluatedStage &facts : stages)
    for (const auto &entry : facts.group.counts)
      types.insert(entry.first);
  std::map<std::tuple<float, std::string, int>, int> byTime;
  for (int type : types) {
    Seconds time{};
    for (int i = 0; types.size() > 1 && i < graph.size(); ++i) {
      Expected<Seconds> own = timeOf(i, type, plan.globalBatch);
      if (!own)
        return own.takeError();
      time += *own;
    }
    byTime[{static_cast<float>(time.value()), cluster.types[type].stated(), type}] = type;
  }
  return byTime.begin()->second;
}

/// The time of `layer` on the slowest replica.
Expected<Seconds> Reevaluator::slowestTimeOf(int layer, const ReevaluatedStage &facts) const {
  std::set<std::pair<int, Samples>> seen;
  Seconds slowest{};
  for (const ReevaluatedReplica &replica : facts.replicas) {
    if (!seen.insert({replica.type, replica.samples}).second)
      continue;
    Expected<Seconds> time = timeOf(layer, replica.type, replica.samples);
    if (!time)
      return time;
    slowest = std::max(slowest, *time);
  }
  return slowest;
}

/// DeepPool, section 4: device-seconds that a layer takes for a second of it on the fastest device.
/// It counts the computing of the slowest device, its sums in the passes, its bytes of the
/// all-reduce (whose latency is the stage's), and, where it is the first of its stage, what is
/// moved at the boundary before it.
Error Reevaluator::addAmplification(std::vector<ReevaluatedStage> &stages) const {
  const MicroBatches whole{plan.globalBatch, plan.microBatches};
  double m = plan.microBatches;
  Expected<int> fastest = fastestType(stages);
  if (!fastest)
    return fastest.takeError();
  for (ReevaluatedStage &facts : stages) {
    CollectiveCost sum = allReduceCost(cluster, facts.group);
    Seconds returned{}; // to stages that go back at the same time
    for (const StageInput &input : facts.inputs)
      returned = std::max(returned, input.receiveGradient);
    for (int i = facts.begin; i < facts.end; ++i) {
      Expected<Seconds> time = slowestTimeOf(i, facts);
      Expected<Seconds> alone = timeOf(i, *fastest, Samples(whole.fullSize()));
      if (!time || !alone)
        return joinErrors(time.takeError(), alone.takeError());
      const Layer &layer = graph.layers[i];
      Seconds spent = *time + sum.time(layer.inPassAllReduces, layer.inPassAllReduceBytes) * 2 * m +
                      Seconds(sum.secondsPerByte * layer.denseBytes().value());
      if (i == facts.begin)
        spent += (facts.receive + returned) * m;
      double ratio = *alone == Seconds(0) ? (spent == Seconds(0) ? 0 : mostAmplification)
                                          : double(facts.replicas.size()) * (spent / *alone);
      facts.amplification = std::max(facts.amplification, std::min(ratio, mostAmplification));
    }
  }
  return Error::success();
}

/// HeterPS, section 4: a stage computes and communicates at the same time, by Amdahl's law.
Error Reevaluator::addSteadyTimes(std::vector<ReevaluatedStage> &stages) const {
  std::set<int> used;
  for (ReevaluatedStage &facts : stages) {
    if (!facts.obstacle.empty())
      continue;
    if (facts.group.counts.size() > 1)
      facts.obstacle = "HeterPS has one type of device in a stage";
    if (!facts.segments.empty() || facts.updatesSlices)
      facts.obstacle = "HeterPS keeps activations and state whole";
    used.insert(facts.group.counts.front().first);
  }
  Error failure = Error::success();
  int64_t parts = std::max(1, plan.microBatches), all = plan.globalBatch.value();
  Samples batch(std::max<int64_t>(1, all / parts + (all % parts != 0)));
  auto price = [&](int layer, int type, Samples samples) {
    if (!used.count(type) || failure)
      return LayerCost{};
    auto cost = costs.price(graph.layers[layer], cluster.types[type], samples);
    if (!cost)
      failure = cost.takeError();
    return cost ? *cost : LayerCost{};
  };
  HeterPsModel model(withSumsOf(graph, plan.batchNorm), cluster, batch, int(parts), price);
  for (ReevaluatedStage &facts : stages) {
    if (!facts.obstacle.empty())
      continue;
    auto [type, units] = facts.group.counts.front();
    Seconds all(model.stageTime(facts.begin, facts.end, type, units));
    facts.forward = all * model.forwardShare(facts.begin, facts.end, type);
    facts.backward = all - facts.forward;
    if (failure)
      return failure;
    Expected<ReevaluatedReplica> largest = priceRange(facts, type, facts.mostSamples);
    if (!largest)
      return largest.takeError();
    for (ReevaluatedReplica &replica : facts.replicas) {
      replica.forward = facts.forward;
      replica.backward = facts.backward;
      replica.forwards = largest->forwards;
      replica.backwards = largest->backwards;
    }
  }
  return failure;
}

Expected<Reevaluation> Reevaluator::run() {
  const bool fitted = factsOf(plan.iterationModel).fitted;
  TransferReevaluator transfers(plan, graph, cluster, cuts);
  Reevaluation result;
  std::map<int, StageReader> readers; // by degree
  for (const Stage &stage : plan.stages) {
    const int degree = degreeOf(stage);
    const StageReader &reader =
        readers.try_emplace(degree, plan, layersOf(degree), cluster).first->second;
    result.stages.push_back(reader.read(stage));
  }
  if (Error error = transfers.findFlows(result.stages))
    result.obstacle = toText(std::move(error));
  else if (Expected<Dollars> traffic = transfers.traffic())
    result.traffic = *traffic;
  else
    result.obstacle = toText(traffic.takeError());
  for (size_t s = 0; s < result.stages.size(); ++s) {
    ReevaluatedStage &facts = result.stages[s];
    if (!facts.obstacle.empty())
      continue;
    if (!fitted)
      if (Error error = price(facts))
        return error;
    const LayerGraph &layers = layersOf(degreeOf(plan.stages[s]));
    StageMemoryReevaluator(plan, layers, cluster, cuts).addNeeds(s, facts);
  }
  if (!fitted)
    transfers.addTimes(result.stages);
  else if (Error error = addSteadyTimes(result.stages))
    return error;
  for (size_t s = 0; s < result.stages.size(); ++s) {
    ReevaluatedStage &facts = result.stages[s];
    if (facts.obstacle.empty() && !fitted) {
      addLookups(facts);
      addTimes(facts, plan.stages[s], s + 1 == result.stages.size());
    } else if (!facts.obstacle.empty() && result.obstacle.empty())
      result.obstacle = "stage " + std::to_string(s) + ": " + facts.obstacle;
  }
  if (plan.stages.empty())
    result.obstacle = "the plan has no stages";
  if (sharesDevices(plan.schedule)) {
    if (!result.obstacle.empty())
      return result;
    if (plan.schedule == Schedule::Burst)
      if (Error error = addAmplification(result.stages))
        return error;
    Expected<SharedSchedule> found = runShared(plan, result.stages, graph, cluster);
    if (!found)
      result.obstacle = "its time is not checked: " + toText(found.takeError());
    else {
      result.scheduled = found->iteration;
      result.idle = std::move(found->idle);
    }
    return result;
  }
  if (result.obstacle.empty())
    schedulePasses(result);
  return result;
}

/// Schedules the passes of a pipeline for which the formula need not be exact, or that states the
/// time of a run.
void Reevaluator::schedulePasses(Reevaluation &result) const {
  const int stages = int(plan.stages.size()), microBatches = plan.microBatches;
  if (plan.schedule != Schedule::OneForwardOneBackward || !factsOf(plan.iterationModel).drains ||
      stages < 2)
    return;
  const bool overlaps = plan.overlapsTransfers;
  const bool formulaIsExact = (stages < 3 && !overlaps) || microBatches < 2;
  if (formulaIsExact && !plan.expected)
    return;
  if (double(microBatches) * stages > mostPasses) {
    result.obstacle = std::to_string(microBatches) + " micro-batches are too many to schedule";
    return;
  }
  if (!formulaIsExact)
    result.scheduled =
        scheduledTime(result.stages, microBatches, /*holdsLastStage=*/true, overlaps);
  if (plan.expected)
    result.expected =
        scheduledTime(result.stages, microBatches, /*holdsLastStage=*/false, overlaps);
}
} // namespace

Expected<Reevaluation> reevaluate(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                                  const CostModel &costs) {
  return Reevaluator(plan, graph, cluster, costs).run();
}

} // namespace heterplan
