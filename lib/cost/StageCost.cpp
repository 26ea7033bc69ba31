#include "cost/StageCost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

GroupCosts groupCosts(const Cluster &cluster, const DeviceGroup &group) {
  return {allReduceCost(cluster, group), reduceScatterCost(cluster, group),
          lookupCost(cluster, group), lookupGradientCost(cluster, group),
          tiedSumCost(cluster, group)};
}

std::vector<int64_t> StageOption::rowsOf(const SparseTable &table) const {
  std::vector<double> parts;
  for (size_t i = 0; i < devices.counts.size(); ++i)
    parts.insert(parts.end(), devices.counts[i].second,
                 tableParts.empty() ? 1.0 / replicas() : tableParts[i]);
  return divideRows(table.rows, parts);
}

StageCosts::StageCosts(const LayerGraph &graph, const Cluster &cluster, const CostModel &costs,
                       Optimizer optimizer, Samples globalBatch, LayerTimesTable::MayRun mayRun,
                       Precision precision, const ModeRequest &asked)
    : cuts(graph.cuts()), times(graph, cluster, costs, std::move(mayRun)), graph(graph),
      cluster(cluster), asked(asked), groups(cluster.types.size()) {
  std::map<int, std::shared_ptr<Parts>> byDegree;
  for (const DeviceType &type : cluster.types) {
    std::shared_ptr<Parts> &own = byDegree[type.shards];
    if (!own)
      own = std::make_shared<Parts>(type.shards == 1 ? graph : graph.ofDegree(type.shards), cuts,
                                    optimizer, globalBatch, precision, asked);
    parts.push_back(own);
  }
}

StageCosts::Parts::Parts(LayerGraph layers, ArrayRef<Cut> cuts, Optimizer optimizer,
                         Samples globalBatch, Precision precision, const ModeRequest &asked)
    : graph(std::move(layers)),
      memory(graph, cuts, optimizer, globalBatch, precision, asked.overlapsTransfers),
      inPassAllReduces(graph.layers.size() + 1), inPassAllReduceBytes(graph.layers.size() + 1) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    inPassAllReduces[i + 1] = inPassAllReduces[i] + graph.layers[i].inPassAllReduces;
    inPassAllReduceBytes[i + 1] = inPassAllReduceBytes[i] + graph.layers[i].inPassAllReduceBytes;
  }
}

const GroupCosts &StageCosts::costsOf(const DeviceGroup &group) {
  if (group.counts.size() > 1 || !group.spread.empty()) {
    if (group != lastOther) {
      lastOther = group;
      other = groupCosts(cluster, group);
    }
    return other;
  }
  auto [type, count] = group.counts.front();
  if (groups[type].size() <= size_t(count))
    groups[type].resize(count + 1);
  std::unique_ptr<GroupCosts> &entry = groups[type][count];
  if (!entry)
    entry = std::make_unique<GroupCosts>(groupCosts(cluster, group));
  return *entry;
}

StageCosts::Computing StageCosts::computingOf(LayerRange range, const StageOption &option, int type,
                                              int64_t share, int microBatches) {
  const LayerTimes &of = times.at(type, share, microBatches);
  Computing result{of.forward(range), of.backward(range), {}, of.update(range), &of};
  if (option.recomputation) {
    result.again = result.forward;
    result.backward += result.again;
  }
  if (option.sharding.dividesState()) // each updates its slice
    result.update = result.update / double(option.replicas());
  return result;
}

StageCosts::Together StageCosts::togetherOf(LayerRange range, const StageOption &option,
                                            const GroupCosts &costs) {
  const Parts &own = partsOf(option);
  const StageMemory &memory = own.memory;
  Together result;
  result.inPassAllReduce = costs.reduce.time(
      own.inPassAllReduces[range.end] - own.inPassAllReduces[range.begin],
      own.inPassAllReduceBytes[range.end] - own.inPassAllReduceBytes[range.begin]);
  if (option.sharding.scattersGradients())
    result.reduceScatter = costs.scatter.time(memory.denseParameters(range));
  if (option.sharding.gathersParameters()) { // layer by layer
    const Gathers gathers = memory.gathers(range);
    result.gather = costs.scatter.time(gathers.count, gathers.bytes);
    result.reduceScatter = result.gather;
  }
  return result;
}

ReplicaCost StageCosts::passesOf(const Computing &computing, const Together &together) {
  const Seconds each = together.inPassAllReduce + together.gather;
  ReplicaCost result{computing.forward + each, computing.backward + each};
  result.backward += together.reduceScatter;
  return result;
}

/// The slowest replicas among those added, the one with the largest share first.
struct StageCosts::Slowest {
  Computing largest;           // of the largest share
  Computing forward, backward; // of each pass by itself
  Computing both;
  SmallVector<const LayerTimes *, 4> all; // each of those added
  Seconds update{};
  Samples share{};
  bool known = true, largestIsSlowest = true;

  void add(LayerRange range, const Computing &now, int64_t samples) {
    if (share == Samples(0))
      largest = forward = backward = both = now;
    forward = now.forward > forward.forward ? now : forward;
    backward = now.backward > backward.backward ? now : backward;
    both = now.both() > both.both() ? now : both;
    update = std::max(update, now.update);
    share = std::max(share, Samples(samples));
    all.push_back(now.times);
    known &= now.times->known(range);
    largestIsSlowest &= now.forward <= largest.forward && now.backward <= largest.backward &&
                        now.update <= largest.update;
  }
};

/// The part of an all-reduce that the last backward pass does not hide. The gradients of a layer,
/// and of all before it, can be summed only after that layer's backward pass; the passes of the
/// layers before it go on meanwhile, as long as they take on the replica that is done first, and as
/// much later as the gradients behind it have cost. Passes that are computed again hide nothing
/// here.
Seconds StageCosts::exposedSum(LayerRange range, const StageMemory &memory,
                               const CollectiveCost &collective, const Slowest &replicas) const {
  Seconds exposed{};
  const Bytes all = memory.denseParameters(range);
  for (int layer = range.begin; layer < range.end; ++layer) {
    Seconds left(std::numeric_limits<double>::infinity());
    for (const LayerTimes *times : replicas.all)
      left = std::min(left, times->backward({range.begin, layer}));
    const Bytes waiting = memory.denseParameters({range.begin, layer + 1});
    const Seconds sum = collective.time(waiting) + collective.lost(all - waiting);
    exposed = std::max(exposed, sum - left);
  }
  return exposed;
}

/// Gradients are reduced to all, or each replica updates a slice and all gather the slices; of
/// sharded gradients each micro-batch has reduced and scattered its own. Sharded parameters leave
/// only those that other stages use. Gradients of tied parameters are summed over their stages as
/// well.
void StageCosts::addSynchronization(LayerRange range, const StageOption &option,
                                    const GroupCosts &costs, const Slowest &replicas,
                                    StageCost &cost) {
  const StageMemory &memory = partsOf(option).memory;
  bool onlyGathers = option.sharding.scattersGradients() && !option.sharding.gathersParameters();
  const CollectiveCost &collective = onlyGathers ? costs.scatter : costs.reduce;
  const Bytes bytes = option.sharding.gathersParameters() ? memory.wholeBytes(range)
                                                          : memory.denseParameters(range);
  const bool overlaps = asked.overlapsSumsOf(option.sharding);
  cost.synchronization =
      (overlaps ? exposedSum(range, memory, collective, replicas) : collective.time(bytes)) +
      cost.update;
  if (Bytes tied = memory.tiedOutside(range); tied != Bytes(0))
    cost.synchronization += costs.tiedSum.time(tied);
}

/// Rows that a sample looks up. If rows lie unevenly, the exchange of the busiest device counts.
TableRows StageCosts::lookupsOf(LayerRange range, const StageOption &option) {
  TableRows rows = partsOf(option).memory.lookups(range);
  if (option.tableParts.empty())
    return rows;
  for (int layer = range.begin; layer < range.end; ++layer)
    for (const SparseTable &table : graph.layers[layer].tables)
      rows.bytes += table.lookupBytes() * (exchangeSkew(option.rowsOf(table)) - 1);
  return rows;
}

/// The largest share's rows, in each pass.
void StageCosts::addLookups(LayerRange range, const StageOption &option, const GroupCosts &costs,
                            StageCost &cost) {
  TableRows rows = lookupsOf(range, option) * double(cost.largestShare.value());
  cost.lookup = costs.lookup.time(rows);
  cost.lookupGradient = costs.lookupGradient.time(rows);
  cost.forward += cost.lookup;
  cost.backward += cost.lookupGradient;
}

/// HeterPS has one time for a stage; forward and backward divide it as its computing does.
StageCost StageCosts::fittedTimes(LayerRange range, const StageOption &option,
                                  const BatchSplit &split) {
  auto [type, count] = option.devices.counts.front();
  Seconds all(fitted->stageTime(range.begin, range.end, type, count));
  StageCost cost;
  cost.forward = all * fitted->forwardShare(range.begin, range.end, type);
  cost.backward = all - cost.forward;
  cost.largestShare = Samples((split.batch + count - 1) / count);
  return cost;
}

StageCosts::Slowest StageCosts::slowestOf(LayerRange range, const StageOption &option,
                                          const BatchSplit &split) {
  Slowest slowest;
  auto add = [&](int type, int64_t share) {
    slowest.add(range, computingOf(range, option, type, share, split.microBatches), share);
  };
  if (split.shares.empty()) { // of one type
    auto [type, count] = option.devices.counts.front();
    add(type, (split.batch + count - 1) / count);
    if (split.batch % count != 0)
      add(type, split.batch / count);
  }
  for (size_t i = 0; i < split.shares.size(); ++i) {
    // Each once, as there may be thousands. As measured, smaller ones may take longer.
    ArrayRef<int64_t> left = split.shares[i];
    while (!left.empty()) {
      add(option.devices.counts[i].first, left.front());
      auto isEqual = [&](int64_t share) { return share == left.front(); };
      left = left.drop_front(partition_point(left, isEqual) - left.begin());
    }
  }
  slowest.largestIsSlowest &= option.devices.counts.size() == 1;
  if (split.isLast)
    slowest.forward = slowest.backward = slowest.both;
  return slowest;
}

StageCost StageCosts::stageCost(LayerRange range, const StageOption &option,
                                const BatchSplit &split) {
  StageCost cost = stageTimes(range, option, split);
  cost.memory =
      partsOf(option).memory.of(range, option.replicas(), option.recomputation, option.sharding,
                                option.messages ? &*option.messages : nullptr);
  return cost;
}

StageCost StageCosts::stageTimes(LayerRange range, const StageOption &option,
                                 const BatchSplit &split) {
  assert(option.sharding.degree == 1 && "replicas of several devices have no cost yet");
  if (fitted)
    return fittedTimes(range, option, split);
  Slowest slowest = slowestOf(range, option, split);
  const GroupCosts &costs = costsOf(option.devices);
  Together together = togetherOf(range, option, costs);
  StageCost cost;
  cost.forward = passesOf(slowest.forward, together).forward;
  cost.backward = passesOf(slowest.backward, together).backward;
  cost.update = slowest.update;
  cost.inPassAllReduce = together.inPassAllReduce;
  cost.reduceScatter = together.reduceScatter;
  cost.gather = together.gather;
  cost.recomputation = slowest.backward.again;
  cost.largestShare = slowest.share;
  cost.isKnown = slowest.known;
  cost.largestIsSlowest = slowest.largestIsSlowest;
  cost.slowestForward = slowest.forward.times;
  cost.slowestBackward = slowest.backward.times;
  addSynchronization(range, option, costs, slowest, cost);
  addLookups(range, option, costs, cost);
  return cost;
}

ReplicaCost StageCosts::replicaCost(LayerRange range, const StageOption &option,
                                    const BatchSplit &split, int type, int64_t share) {
  if (fitted) {
    StageCost all = fittedTimes(range, option, split);
    return {all.forward, all.backward};
  }
  return passesOf(computingOf(range, option, type, share, split.microBatches),
                  togetherOf(range, option, costsOf(option.devices)));
}

Seconds StageCosts::computing(LayerRange range, Recomputation recomputation, int type,
                              int64_t share, int microBatches) {
  StageOption option;
  option.recomputation = recomputation;
  return computingOf(range, option, type, share, microBatches).both();
}

bool StageCosts::isSlower(LayerRange range, int type, int64_t large, int64_t small,
                          int microBatches) {
  if (large == small || fitted)
    return true;
  const LayerTimes &slow = times.at(type, large, microBatches);
  const LayerTimes &fast = times.at(type, small, microBatches);
  return fast.forward(range) <= slow.forward(range) &&
         fast.backward(range) <= slow.backward(range) && fast.update(range) <= slow.update(range);
}

} // namespace heterplan
