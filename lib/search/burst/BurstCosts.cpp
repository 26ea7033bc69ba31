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
  BatchSplit split;
  split.batch = problem.request.globalBatch.value();
  return costs.stageCost(range, option, split);
}

Seconds BurstCosts::activations(int position, int before, int after) const {
  const Cut &cut = costs.cuts[position];
  return pool.moveTime(before, after, cut.forwardBytes, cut.fixedBytes);
}

Seconds BurstCosts::gradients(int position, int before, int after) const {
  return pool.moveTime(after, before, costs.cuts[position].backwardBytes, Bytes(0));
}

double BurstCosts::amplification(int layer, int width, Seconds moving) {
  LayerRange one{layer, layer + 1};
  StageCost cost = stage(one, width), alone = stage(one, 1);
  Seconds bytes(costs.costsOf(pool.group(width)).reduce.secondsPerByte *
                costs.memory.denseParameters(one).value());
  Seconds spent = cost.forward + cost.backward + cost.update + bytes + moving;
  Seconds once = alone.forward + alone.backward + alone.update;
  if (once == Seconds())
    return spent == Seconds() ? 0 : mostAmplification;
  return std::min(width * (spent / once), mostAmplification);
}

} // namespace heterplan
