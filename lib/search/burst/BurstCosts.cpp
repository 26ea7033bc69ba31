#include "search/burst/BurstCosts.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

BurstCosts::BurstCosts(const Problem &problem, const Pool &pool)
    : problem(problem), pool(pool),
      costs(
          problem.graph, problem.cluster, *problem.costs, problem.request.optimizer,
          problem.request.globalBatch, [](int, int) { return true; }, problem.request.precision) {}

StageCost BurstCosts::stage(LayerRange range, int width, std::optional<StageMessages> messages) {
  StageOption option;
  option.messages = messages;
  option.devices = pool.group(width);
  return costs.stageCost(range, option, splitOf(range, width));
}

BatchSplit BurstCosts::splitOf(LayerRange range, int width) const {
  return {problem.request.globalBatch.value(), 1, range.end == problem.graph.size(),
          pool.shares(width)};
}

ReplicaCost BurstCosts::replica(LayerRange range, int width, PoolKind kind) {
  StageOption option;
  option.devices = pool.group(width);
  return costs.replicaCost(range, option, splitOf(range, width), kind.type, kind.samples);
}

Seconds BurstCosts::computing(int layer, int width) {
  LayerRange one{layer, layer + 1};
  Seconds slowest{};
  for (const PoolKind &kind : pool.kinds(width)) {
    ReplicaCost passes = replica(one, width, kind);
    Seconds update = costs.times.at(kind.type, kind.samples).update(one);
    slowest = std::max(slowest, passes.forward + passes.backward + update);
  }
  return slowest;
}

/// Layers that share parameters are in one stage, which sums their gradients once.
double BurstCosts::amplification(int layer, int width, Seconds moving) {
  Seconds bytes(costs.costsOf(pool.group(width)).reduce.secondsPerByte *
                problem.graph.layers[layer].denseBytes().value());
  Seconds spent = computing(layer, width) + bytes + moving, once = computing(layer, 1);
  if (once == Seconds())
    return spent == Seconds() ? 0 : mostAmplification;
  return std::min(width * (spent / once), mostAmplification);
}

} // namespace heterplan
