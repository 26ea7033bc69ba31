// The figures that the search adds up: the cost of a stage of a burst plan on some devices of the
// pool, the amplification of its layers, and the time of a change of width. All times of stages are
// those of stageCost().
#pragma once

#include "cost/StageCost.h"
#include "search/burst/Pool.h"
#include "search/problem/Problem.h"

#include <vector>

namespace heterplan {

class BurstCosts {
public:
  /// Both outlive this.
  BurstCosts(const Problem &problem, const Pool &pool);

  /// Layers `range` on `width` devices; all of the batch at once. `messages`: as
  /// StageOption::messages.
  StageCost stage(LayerRange range, int width, std::optional<StageMessages> messages = {});
  /// Time of its gradients' sum: what it takes to synchronise but for the update.
  static Seconds sumOf(const StageCost &cost) { return cost.synchronization - cost.update; }
  /// The time of the passes on one of the devices.
  ReplicaCost replica(LayerRange range, int width, PoolKind kind);
  /// The memory that the stage needs on one of the devices.
  Bytes memory(const StageCost &cost, PoolKind kind) const {
    return cost.memory.on(problem.roomOf(kind.type)).need(Samples(kind.samples), 1);
  }

  /// The cost of the cut before layer `position` between `before` devices and `after` devices.
  BoundaryCost boundary(int position, int before, int after) const {
    return pool.boundary({0, before}, {0, after}, MessageBytes(costs.cuts[position]));
  }

  /// Device-seconds that `layer` takes on `width` devices for a second of it on the fastest: it
  /// counts the computing of the slowest, its sums within the passes, and its bytes of the
  /// all-reduce, whose latency is the stage's (DeepPool, section 4). At most mostAmplification.
  double amplification(int layer, int width) { return amplification(layer, width, Seconds()); }
  /// The amplification of the first layer of a stage behind a stage on `before` devices; it
  /// includes the moves to the layer and back.
  double amplificationBehind(int layer, int before, int width) {
    return amplification(layer, width, boundary(layer, before, width).both());
  }
  /// The amplification of a layer, including `moving`, the time of moves to it and back.
  double amplification(int layer, int width, Seconds moving);
  /// Passes and update of the slowest of the first `width` devices, one layer alone.
  Seconds computing(int layer, int width);
  static constexpr double mostAmplification = 1e9; // of a layer that takes no time on one device

  /// The first failure of the cost model, if any.
  llvm::Error takeError() { return costs.times.takeError(); }

  const Problem &problem;
  const Pool &pool;
  StageCosts costs;

private:
  BatchSplit splitOf(LayerRange range, int width) const;
};

} // namespace heterplan
