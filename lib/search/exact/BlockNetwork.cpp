#include "search/exact/BlockNetwork.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The least of several links is concave in the size: its start, and its slope far out.
LeastMessage leastMessage(const Cluster &cluster, const DeviceGroup &group, bool inNode) {
  const FastestPath path(cluster, group, inNode);
  auto least = [&](double bytes) {
    return path.leastTime(Samples(1), Bytes(bytes), Bytes(0)).value();
  };
  return {least(1e-9), (least(2e18) - least(1e18)) / 1e18};
}
} // namespace

std::vector<BlockLane> lanesOf(const Evaluator &evaluator, const NodePlaces &places,
                               bool wholeModelGroups) {
  const SearchSpace &space = evaluator.space;
  const Cluster &cluster = evaluator.problem.cluster;
  std::vector<BlockLane> lanes;
  for (int option = 0; option < int(space.options.size()); ++option) {
    const DeviceGroup &group = space.options[option].group;
    if (space.options[option].wholeModelOnly && !wholeModelGroups)
      continue;
    BlockLane lane{option,
                   0,
                   0,
                   groupCosts(cluster, group).reduce,
                   leastMessage(cluster, group, group.besideBefore),
                   leastMessage(cluster, group, group.besideNext)};
    places.overStage({0, 0, option}, [&](size_t before, size_t behind) {
      lane.sideBefore = before;
      lane.sideBehind = behind;
      lanes.push_back(lane);
    });
  }
  return lanes;
}

BlockNetwork::BlockNetwork(Evaluator &evaluator, const NodePlaces &places, ArrayRef<BlockLane> all,
                           int microBatches)
    : microBatches(microBatches), blocks(int(evaluator.space.positions.size()) - 1),
      places(places) {
  const SearchSpace &space = evaluator.space;
  const int64_t batch = evaluator.stages.fullSize(microBatches);
  for (const BlockLane &lane : all)
    if (space.isUseful(space.options[lane.option], batch))
      lanes.push_back(&lane);
  const size_t size = size_t(blocks + 1) * lanes.size();
  barrier.assign(size, infinity);
  for (std::vector<double> *table : {&time, &forward, &sync, &receive, &gradient})
    table->assign(size, 0);
  const StageMemory &memory = evaluator.stages.costs.memoryOf(0);
  for (int block = 0; block < blocks; ++block)
    hasParameters.push_back(memory.denseParameters({0, space.positions[block + 1]}) !=
                            memory.denseParameters({0, space.positions[block]}));
  const LeastMixedTimes mixed(evaluator.stages, space, microBatches);
  const bool isHidden = evaluator.problem.request.overlapsSums; // more than is known here
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    latency.push_back(isHidden ? 0 : lanes[lane]->reduce.latency.value());
    const bool isKnown = lane > 0 && lanes[lane - 1]->option == lanes[lane]->option;
    for (int block = 0; block < blocks && !isKnown; ++block)
      setBlock(evaluator, lane, block, mixed);
    for (std::vector<double> *table : {&time, &forward, &sync, &barrier})
      for (int block = 0; block < blocks && isKnown; ++block)
        (*table)[at(block, lane)] = (*table)[at(block, lane - 1)];
    setTransfers(evaluator, lane);
  }
  for (int block = 0; block < blocks && !lanes.empty(); ++block) {
    double least = infinity;
    for (size_t here = at(block, 0); here < at(block + 1, 0); ++here)
      least = std::min(least, time[here] + barrier[here]);
    slowestBlock = std::max(slowestBlock, least);
  }
}

void BlockNetwork::setTransfers(Evaluator &evaluator, size_t lane) {
  if (evaluator.rules.transfersArePartOfStages() || evaluator.problem.request.overlapsTransfers)
    return;
  const SearchSpace &space = evaluator.space;
  const int64_t batch = evaluator.stages.fullSize(microBatches);
  const int64_t devices = space.options[lanes[lane]->option].group.replicas();
  const double share = double((batch + devices - 1) / devices);
  auto message = [&](const LeastMessage &of, Bytes bytes) {
    return bytes == Bytes(0) ? 0 : of.latency + bytes.value() * share * of.perSampleByte;
  };
  for (int position = 1; position < blocks; ++position) {
    const Cut &cut = evaluator.cuts[space.positions[position]];
    receive[at(position, lane)] = message(lanes[lane]->receive, cut.forwardBytes);
    gradient[at(position, lane)] = message(lanes[lane]->gradient, cut.backwardBytes);
  }
}

void BlockNetwork::setBlock(Evaluator &evaluator, size_t lane, int block,
                            const LeastMixedTimes &mixed) {
  const std::vector<int> &positions = evaluator.space.positions;
  const LayerRange layers{positions[block], positions[block + 1]};
  const DeviceGroup &group = evaluator.space.options[lanes[lane]->option].group;
  const bool mayRun = all_of(
      group.counts, [&](const auto &each) { return evaluator.stages.mayRun(layers, each.first); });
  if (!mayRun)
    return;
  const size_t here = at(block, lane);
  if (group.counts.size() > 1) {
    time[here] = mixed.seconds(group, block, block + 1);
  } else {
    const auto [type, count] = group.counts.front();
    const int64_t share = (evaluator.stages.fullSize(microBatches) + count - 1) / count;
    const LayerTimes &times = evaluator.stages.timesOf(type, share, microBatches);
    if (!times.known(layers))
      return;
    StageOption option;
    option.devices = group;
    const ReplicaCost cost = evaluator.stages.costs.replicaCost(
        layers, option, evaluator.stages.splitOf(microBatches, true), type, share);
    forward[here] = cost.forward.value();
    time[here] = (cost.forward + cost.backward).value();
    sync[here] = times.update(layers).value() / count; // if each replica updates its part
  }
  barrier[here] = 0;
  if (evaluator.problem.request.overlapsSums)
    return;
  const StageMemory &memory = evaluator.stages.costs.memoryOf(group);
  const Bytes parameters =
      memory.denseParameters({0, layers.end}) - memory.denseParameters({0, layers.begin});
  sync[here] += lanes[lane]->reduce.secondsPerByte * parameters.value();
}

StageArc BlockNetwork::stage(int begin, int end, size_t lane) const {
  StageArc stage{
      {begin, end, lanes[lane]->option}, {}, receive[at(begin, lane)], gradient[at(end, lane)]};
  bool synchronises = false;
  for (int block = begin; block < end; ++block) {
    stage.forward += forward[at(block, lane)];
    stage.backward += time[at(block, lane)] - forward[at(block, lane)];
    stage.sync += sync[at(block, lane)];
    synchronises |= hasParameters[block];
  }
  stage.leastForward = stage.forward;
  stage.sync += synchronises ? latency[lane] : 0;
  return stage;
}

BlockPrefixes::BlockPrefixes(const BlockNetwork &network) : synchronised(network.blocks + 1) {
  const size_t lanes = network.lanes.size();
  for (std::vector<double> *sums : {&time, &forward, &sync})
    sums->assign(network.time.size(), 0);
  barred.assign(network.time.size(), 0);
  for (int block = 0; block < network.blocks; ++block) {
    synchronised[block + 1] = synchronised[block] + network.hasParameters[block];
    for (size_t here = network.at(block, 0); here < network.at(block + 1, 0); ++here) {
      time[here + lanes] = time[here] + network.time[here];
      forward[here + lanes] = forward[here] + network.forward[here];
      sync[here + lanes] = sync[here] + network.sync[here];
      barred[here + lanes] = barred[here] + (network.barrier[here] > 0);
    }
  }
}

} // namespace heterplan
