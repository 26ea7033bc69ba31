#include "search/verify/Reevaluation.h"

#include "cost/HeterPs.h"
#include "cost/Memory.h"
#include "search/verify/IterationFacts.h"
#include "search/verify/ScheduledTime.h"
#include "search/verify/SharedDevices.h"

#include "llvm/ADT/StringMap.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr Samples mostShare(int64_t(1) << 40); // keeps products with device counts in range
constexpr double mostPasses = 1 << 24;
constexpr double mostAmplification = 1e9; // of a layer that takes no time on one device

/// Whether `node` is the name of one of the nodes of `group`.
bool isNodeOf(const NodeGroup &group, StringRef node) {
  if (group.count == 1)
    return node == group.name;
  int index = 0;
  if (!node.consume_front(group.name) || !node.consume_front("-"))
    return false;
  return !node.getAsInteger(10, index) && index >= 0 && index < group.count &&
         node == std::to_string(index);
}

class Reevaluator {
public:
  Reevaluator(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
              const CostModel &costs)
      : plan(plan), graph(graph), cluster(cluster), costs(costs), cuts(graph.cuts()) {
    for (int i = 0; i < graph.size(); ++i)
      layerIndex[graph.layers[i].name] = i;
  }

  Expected<Reevaluation> run();

private:
  std::string placeLayers(const Stage &stage, ReevaluatedStage &facts) const;
  std::string placeSegments(const Stage &stage, ReevaluatedStage &facts) const;
  std::string placeReplicas(const Stage &stage, ReevaluatedStage &facts) const;
  Error price(ReevaluatedStage &facts) const;
  Expected<ReevaluatedReplica> priceRange(const ReevaluatedStage &facts, int type,
                                          Samples samples) const;
  int inFlight(size_t stage) const;
  void addMemory(ReevaluatedStage &facts, size_t stage) const;
  Bytes parameterMemory(const ReevaluatedStage &facts) const;
  Bytes activationMemory(const ReevaluatedStage &facts, Samples samples, int inFlight) const;
  void addTransfers(std::vector<ReevaluatedStage> &stages) const;
  std::map<DeviceRef, HeldSamples> heldBy(size_t stage) const;
  MovedSamples movedBehind(size_t stage) const;
  TransferPath pathBehind(size_t stage, const DeviceGroup &from, const DeviceGroup &to) const;
  Error addAmplification(std::vector<ReevaluatedStage> &stages) const;
  Expected<Seconds> timeOf(int layer, int type, Samples samples) const;
  void addLookups(ReevaluatedStage &facts) const;
  void addTimes(ReevaluatedStage &facts, const Stage &stated, bool isLast) const;
  Error addSteadyTimes(std::vector<ReevaluatedStage> &stages) const;

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  std::vector<Cut> cuts;
  StringMap<int> layerIndex;
};

std::string Reevaluator::placeLayers(const Stage &stage, ReevaluatedStage &facts) const {
  if (stage.layers.empty())
    return "it has no layers";
  int next = -1;
  for (const std::string &name : stage.layers) {
    auto found = layerIndex.find(name);
    if (found == layerIndex.end())
      return "the model has no layer '" + name + "'";
    if (next < 0)
      facts.begin = next = found->second;
    if (found->second != next++)
      return "layer '" + name + "' does not follow the one before it";
  }
  facts.end = next;
  for (int i = facts.begin; i < facts.end; ++i) {
    const Layer &layer = graph.layers[i];
    facts.parameterBytes += layer.parameterBytes;
    facts.denseBytes += layer.parameterBytes;
    facts.sums += layer.inPassAllReduces;
    facts.summedBytes += layer.inPassAllReduceBytes;
    for (const SparseTable &table : layer.tables) {
      facts.denseBytes -= table.bytes();
      facts.lookupBytes += table.lookupBytes();
    }
  }
  return "";
}

/// Segments are runs of the stage's layers, the first one from its beginning, and begin where the
/// model may be cut.
std::string Reevaluator::placeSegments(const Stage &stage, ReevaluatedStage &facts) const {
  std::vector<bool> allowed = graph.allowedCuts();
  for (const std::string &name : stage.recompute) {
    auto found = layerIndex.find(name);
    int least = facts.segments.empty() ? facts.begin : facts.segments.back() + 1;
    int most = facts.segments.empty() ? facts.begin : facts.end - 1;
    if (found == layerIndex.end() || found->second < least || found->second > most)
      return "'" + name + "' does not begin a segment of it";
    if (!facts.segments.empty() && !allowed[found->second])
      return "a segment may not begin with '" + name + "', which parts a shared parameter";
    facts.segments.push_back(found->second);
  }
  return "";
}

std::string Reevaluator::placeReplicas(const Stage &stage, ReevaluatedStage &facts) const {
  if (stage.replicas.empty())
    return "it has no replicas";
  std::map<int, int> counts;
  for (const Replica &replica : stage.replicas) {
    if (replica.devices.size() != 1)
      return "a replica of " + std::to_string(replica.devices.size()) + " devices has no price yet";
    const DeviceRef &device = replica.devices.front();
    if (!exists(cluster, device))
      return "the cluster has no device " + nameOf(device);
    if (replica.share < Samples(1) || plan.microBatches < 1)
      return "a replica has no samples";
    if (replica.share > mostShare)
      return "a share of " + std::to_string(replica.share.value()) + " samples is out of range";
    int type = cluster.typeIndex(device);
    int64_t share = replica.share.value(), parts = plan.microBatches;
    facts.replicas.push_back({type, Samples(share / parts + (share % parts != 0)), {}, {}, {}, {}});
    facts.mostSamples = std::max(facts.mostSamples, facts.replicas.back().samples);
    ++counts[type];
  }
  facts.group.counts.assign(counts.begin(), counts.end());
  bool divides = facts.replicas.size() > 1;
  facts.updatesSlices = divides && stage.stateSharding != StateSharding::None;
  facts.scattersGradients = divides && stage.stateSharding == StateSharding::Gradients;
  return "";
}

Expected<ReevaluatedReplica> Reevaluator::priceRange(const ReevaluatedStage &facts, int type,
                                                     Samples samples) const {
  ReevaluatedReplica result{type, samples, {}, {}, {}, {}};
  double added = double(plan.microBatches - 1) / plan.microBatches; // gradients, a backward pass
  for (int i = facts.begin; i < facts.end; ++i) {
    Expected<LayerCost> cost = costs.price(graph.layers[i], cluster.types[type], samples);
    if (!cost)
      return cost.takeError();
    result.forward += cost->forward;
    result.backward += cost->backward + cost->accumulate * added;
    result.update += cost->update;
  }
  if (!facts.segments.empty()) // the sums of the first pass serve again
    result.backward += result.forward;
  if (facts.updatesSlices)
    result.update = result.update / double(facts.replicas.size());
  Seconds summing = allReduceCost(cluster, facts.group).time(facts.sums, facts.summedBytes);
  result.forward += summing;
  result.backward += summing;
  result.backward += facts.reduceScatter;
  return result;
}

Error Reevaluator::price(ReevaluatedStage &facts) const {
  if (facts.scattersGradients) // half of an all-reduce
    facts.reduceScatter = allReduceTime(cluster, facts.group, facts.denseBytes) / 2;
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

/// What the plan says; all of the table where it says nothing.
int64_t rowsHeld(const Stage &stage, const SparseTable &table, size_t replica) {
  for (const TableShards &shards : stage.tables)
    if (shards.table == table.parameter && replica < shards.rows.size())
      return shards.rows[replica];
  return table.rows;
}

int Reevaluator::inFlight(size_t stage) const {
  if (plan.schedule == Schedule::GPipe)
    return plan.microBatches;
  if (plan.schedule == Schedule::Burst)
    return 1;
  return int(std::min<size_t>(size_t(plan.microBatches), plan.stages.size() - stage));
}

/// Parameters are whole; gradients and the optimizer's state (a copy each) by equal slices of
/// 4-byte numbers where the replicas divide them, but for the gradients of two buffers at a time.
Bytes Reevaluator::parameterMemory(const ReevaluatedStage &facts) const {
  double states = parameterCopies(plan.optimizer) - 2;
  Bytes dense = facts.denseBytes, gradients = dense, largest{};
  double quarters = std::ceil(dense.value() / 4 / double(facts.replicas.size()));
  Bytes slice = facts.updatesSlices ? Bytes(4 * quarters) : dense;
  for (int i = facts.begin; i < facts.end; ++i) {
    Bytes own = graph.layers[i].parameterBytes;
    for (const SparseTable &table : graph.layers[i].tables)
      own -= table.bytes();
    largest = std::max(largest, own);
  }
  if (facts.scattersGradients)
    gradients = slice + std::min(dense, largest * 2 + gradientBuffer * 2);
  return dense + gradients + slice * states;
}

/// Of each micro-batch in flight what enters the segments (one that is kept, without any); of one
/// of them the activations of the largest segment.
Bytes Reevaluator::activationMemory(const ReevaluatedStage &facts, Samples samples,
                                    int inFlight) const {
  double count = double(samples.value());
  Bytes buffers{}, workspace{}, largest{}, segment{}, entering{};
  for (int i = facts.begin; i < facts.end; ++i) {
    const Layer &layer = graph.layers[i];
    bool begins =
        std::find(facts.segments.begin(), facts.segments.end(), i) != facts.segments.end();
    if (begins || i == facts.begin)
      entering += cuts[i].forwardBytes * count + cuts[i].fixedBytes;
    segment = begins ? layer.activationBytes : segment + layer.activationBytes;
    largest = std::max(largest, segment);
    buffers += layer.bufferBytes;
    workspace = std::max(workspace, layer.workspaceBytes);
  }
  Bytes kept = largest * count;
  if (facts.segments.empty())
    kept = kept * double(inFlight);
  return entering * double(inFlight) + kept + buffers + workspace * count;
}

void Reevaluator::addMemory(ReevaluatedStage &facts, size_t stage) const {
  for (size_t r = 0; r < facts.replicas.size(); ++r) {
    ReevaluatedReplica &replica = facts.replicas[r];
    replica.need =
        parameterMemory(facts) + activationMemory(facts, replica.samples, inFlight(stage));
    for (int i = facts.begin; i < facts.end; ++i)
      for (const SparseTable &table : graph.layers[i].tables)
        replica.need += tableMemory(table, rowsHeld(plan.stages[stage], table, r), plan.optimizer,
                                    plan.globalBatch);
  }
}

/// Rows exchanged among the replicas; as much as the one with most samples reads.
void Reevaluator::addLookups(ReevaluatedStage &facts) const {
  Bytes rows = facts.lookupBytes * double(facts.mostSamples.value());
  facts.lookup = lookupCost(cluster, facts.group).time(rows);
  facts.lookupGradient = lookupGradientCost(cluster, facts.group).time(rows);
}

std::map<DeviceRef, HeldSamples> Reevaluator::heldBy(size_t stage) const {
  std::map<DeviceRef, HeldSamples> result;
  int64_t begin = 0, parts = plan.microBatches;
  for (const Replica &replica : plan.stages[stage].replicas) {
    int64_t share = replica.share.value(), count = share / parts + (share % parts != 0);
    result[replica.devices.front()] = {begin, begin + count};
    begin += count;
  }
  return result;
}

MovedSamples Reevaluator::movedBehind(size_t stage) const {
  std::map<DeviceRef, HeldSamples> from = heldBy(stage), to = heldBy(stage + 1);
  auto most = [](const auto &some, const auto &others) {
    int64_t result = 0;
    for (const auto &[device, held] : some) {
      int64_t moved = held.end - held.begin;
      if (auto other = others.find(device); other != others.end())
        moved -= std::max<int64_t>(0, std::min(held.end, other->second.end) -
                                          std::max(held.begin, other->second.begin));
      result = std::max(result, moved);
    }
    return Samples(result);
  };
  return {most(from, to), most(to, from)};
}

/// In a burst plan one of the two sets of devices holds the other.
TransferPath Reevaluator::pathBehind(size_t stage, const DeviceGroup &from,
                                     const DeviceGroup &to) const {
  if (plan.schedule != Schedule::Burst)
    return transferPath(cluster, from, to);
  std::map<DeviceRef, HeldSamples> some = heldBy(stage), others = heldBy(stage + 1);
  if (some.size() > others.size())
    std::swap(some, others);
  bool nested = std::all_of(some.begin(), some.end(),
                            [&](const auto &entry) { return others.count(entry.first) != 0; });
  return nested ? nestedTransferPath(cluster, from, to) : transferPath(cluster, from, to);
}

/// Receipts of neighbours that are both known; they are as wide as the wider side needs.
void Reevaluator::addTransfers(std::vector<ReevaluatedStage> &stages) const {
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    ReevaluatedStage &from = stages[s], &to = stages[s + 1];
    if (!from.obstacle.empty() || !to.obstacle.empty())
      continue;
    const Cut &cut = cuts[to.begin];
    MovedSamples moved = movedBehind(s);
    if (moved.received == Samples(0)) // each device has its samples already
      continue;
    to.receive = pathBehind(s, from.group, to.group)
                     .time(moved.sent, moved.received, cut.forwardBytes, cut.fixedBytes);
    from.receiveGradient = pathBehind(s, to.group, from.group)
                               .time(moved.received, moved.sent, cut.backwardBytes, Bytes(0));
  }
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
  if (facts.replicas.size() > 1) { // what was scattered is only gathered
    Seconds whole = allReduceTime(cluster, facts.group, facts.denseBytes);
    facts.sync += facts.scattersGradients ? whole / 2 : whole;
  }
}

/// What `layer` computes of an iteration with `samples` of each micro-batch on one device.
Expected<Seconds> Reevaluator::timeOf(int layer, int type, Samples samples) const {
  Expected<LayerCost> cost = costs.price(graph.layers[layer], cluster.types[type], samples);
  if (!cost)
    return cost.takeError();
  double m = plan.microBatches;
  return (cost->forward + cost->backward) * m + cost->accumulate * (m - 1) + cost->update;
}

/// DeepPool, section 4: device-seconds that a layer takes for a second of it on one device. It
/// counts its computing, its sums in the passes, its bytes of the all-reduce (whose latency is the
/// stage's), and, where it is the first of its stage, what is moved at the boundary before it.
/// Where devices differ, the first type of the stage stands for all.
Error Reevaluator::addAmplification(std::vector<ReevaluatedStage> &stages) const {
  const ReevaluatedStage *before = nullptr;
  double m = plan.microBatches;
  for (ReevaluatedStage &facts : stages) {
    int type = facts.group.counts.front().first;
    CollectiveCost sum = allReduceCost(cluster, facts.group);
    for (int i = facts.begin; i < facts.end; ++i) {
      Expected<Seconds> time = timeOf(i, type, facts.mostSamples);
      Expected<Seconds> alone =
          timeOf(i, type, Samples(plan.globalBatch.value() / plan.microBatches));
      if (!time || !alone)
        return joinErrors(time.takeError(), alone.takeError());
      const Layer &layer = graph.layers[i];
      Seconds spent = *time + sum.time(layer.inPassAllReduces, layer.inPassAllReduceBytes) * 2 * m +
                      Seconds(sum.secondsPerByte * layer.denseBytes().value());
      if (i == facts.begin && before)
        spent += (facts.receive + before->receiveGradient) * m;
      double ratio = *alone == Seconds(0) ? (spent == Seconds(0) ? 0 : mostAmplification)
                                          : double(facts.replicas.size()) * (spent / *alone);
      facts.amplification = std::max(facts.amplification, std::min(ratio, mostAmplification));
    }
    before = &facts;
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
  HeterPsModel model(graph, cluster, batch, int(parts), [&](int layer, int type, Samples samples) {
    if (!used.count(type) || failure)
      return LayerCost{};
    auto cost = costs.price(graph.layers[layer], cluster.types[type], samples);
    if (!cost)
      failure = cost.takeError();
    return cost ? *cost : LayerCost{};
  });
  for (ReevaluatedStage &facts : stages) {
    if (!facts.obstacle.empty())
      continue;
    auto [type, units] = facts.group.counts.front();
    Seconds all(model.stageTime(facts.begin, facts.end, type, units));
    facts.forward = all * model.forwardShare(facts.begin, facts.end, type);
    facts.backward = all - facts.forward;
    for (ReevaluatedReplica &replica : facts.replicas) {
      replica.forward = facts.forward;
      replica.backward = facts.backward;
    }
  }
  return failure;
}

Expected<Reevaluation> Reevaluator::run() {
  const bool fitted = factsOf(plan.iterationModel).fitted;
  Reevaluation result;
  for (const Stage &stage : plan.stages) {
    ReevaluatedStage &facts = result.stages.emplace_back();
    facts.obstacle = placeLayers(stage, facts);
    if (facts.obstacle.empty())
      facts.obstacle = placeSegments(stage, facts);
    if (facts.obstacle.empty())
      facts.obstacle = placeReplicas(stage, facts);
    if (!facts.obstacle.empty())
      continue;
    if (!fitted)
      if (Error error = price(facts))
        return error;
    addMemory(facts, result.stages.size() - 1);
  }
  if (!fitted)
    addTransfers(result.stages);
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
  bool formulaIsExact = plan.schedule != Schedule::OneForwardOneBackward ||
                        !factsOf(plan.iterationModel).drains || plan.stages.size() < 3;
  if (!result.obstacle.empty() || formulaIsExact || plan.microBatches < 2)
    return result;
  if (double(plan.microBatches) * double(plan.stages.size()) > mostPasses)
    result.obstacle = std::to_string(plan.microBatches) + " micro-batches are too many to schedule";
  else
    result.scheduled = scheduledTime(result.stages, plan.microBatches);
  return result;
}
} // namespace

std::string nameOf(const DeviceRef &device) {
  return device.type + " " + std::to_string(device.index) + " of node '" + device.node + "'";
}

bool exists(const Cluster &cluster, const DeviceRef &device) {
  return std::any_of(cluster.nodes.begin(), cluster.nodes.end(), [&](const NodeGroup &group) {
    return isNodeOf(group, device.node) && any_of(cluster.types, [&](const DeviceType &type) {
             auto held = group.devices.find(type.name);
             return type.stated() == device.type && held != group.devices.end() &&
                    device.index >= 0 && device.index < held->second;
           });
  });
}

Expected<Reevaluation> recompute(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                                 const CostModel &costs) {
  return Reevaluator(plan, graph, cluster, costs).run();
}

} // namespace heterplan
