// The execution modes of a stage on given devices, and the split of the micro-batch among them. The
// cost of a stage is that of cost/StageCost.h.
#pragma once

#include "cost/StageCost.h"
#include "ir/MicroBatches.h"
#include "search/problem/SearchSpace.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace heterplan {

/// The place of a stage in a pipeline.
struct StagePlace {
  bool isLast = true; // no stage follows
  int inFlight = 1;   // micro-batches that it keeps at a time
};

struct StageEvaluation {
  /// Memory holds, each device has at least one sample, pins and separations hold, and the cost
  /// model knows the layers. The rest says nothing where this is false.
  bool fits = false;
  /// A share, of a group of several types, is all that memory holds.
  bool isLimited = false;
  ExecutionMode mode;
  StageOption option;
  StageCost cost;
  /// By type of the group, largest first; empty where a group of one type has even shares.
  std::vector<std::vector<int64_t>> shares;
};

/// Samples of a micro-batch on each device, grouped by the type of a group, largest first. Empty:
/// use the fastest split.
using Shares = llvm::ArrayRef<std::vector<int64_t>>;

class StageEvaluator {
public:
  /// Both outlive this.
  StageEvaluator(const Problem &problem, const SearchSpace &space);

  /// Evaluates layers `range` on `group` in `mode`, for so many micro-batches of which each counts
  /// as full. Only memory may make it not fit.
  StageEvaluation evaluate(LayerRange range, const DeviceGroup &group, int microBatches,
                           StagePlace place, ExecutionMode mode, Shares stated = {});
  /// Evaluates the stage in each mode in which it fits, but for modes that another one dominates:
  /// that takes no longer whatever the other stages are. The fastest mode comes first.
  llvm::SmallVector<StageEvaluation, 2> evaluateModes(LayerRange range, const DeviceGroup &group,
                                                      int microBatches, StagePlace place,
                                                      Shares stated = {});
  /// Evaluates the stage in the mode that adds least to an iteration by itself, which is
  /// m·(forward + backward) + synchronization.
  StageEvaluation evaluate(LayerRange range, const DeviceGroup &group, int microBatches,
                           StagePlace place, Shares stated = {});

  /// The modes that the request allows for a stage of `replicas`, the simplest one first.
  llvm::ArrayRef<ExecutionMode> modesFor(int replicas) const {
    return replicas > 1 ? modes : modesOfOne;
  }
  /// The same modes. The first one dominates the others where memory does not limit it, but for
  /// those in which unlike devices divide a micro-batch in another way.
  llvm::ArrayRef<ExecutionMode> modesByTime(int replicas) const {
    return replicas > 1 ? byTime : byTimeOfOne;
  }
  ExecutionMode fastestMode(int replicas) const { return modesByTime(replicas).front(); }
  /// Whether the fastest mode dominates the others as said. If sums overlap with passes, the passes
  /// may hide the whole sum of undivided gradients, and divided state is updated sooner.
  bool fastestDominates() const { return !problem.request.overlapsSums; }
  /// Whether `mode` dominates the mode with sharded parameters that recomputes no less, in a stage
  /// that both divide alike. The other mode gathers in each pass what `mode` gathers once.
  static bool dominatesGathers(ExecutionMode mode);
  /// Layers `range` may be one stage on `type` as far as pins and separations go.
  bool mayRun(LayerRange range, int type) const;
  /// Most micro-batches of `share` samples that one device of `type` holds, of `replicas`; 0: not
  /// even one.
  int mostInFlight(LayerRange range, int type, int replicas, int64_t share, ExecutionMode mode);
  /// Most micro-batches of a stage of equal shares that costs `cost`, on devices of `type`.
  int mostInFlight(const StageCost &cost, int type) const {
    DeviceRoom room = problem.roomOf(type);
    return cost.memory.on(room).mostInFlight(room.memory, cost.largestShare);
  }
  /// Most samples of a micro-batch that one such device holds.
  int64_t mostSamples(LayerRange range, int type, int inFlight, int64_t batch,
                      const StageOption &option);
  /// Whether `count` devices of `type` hold the stage in any mode.
  bool holds(LayerRange range, int type, int count, int microBatches, int inFlight);
  /// Fewest devices of `type` with which a micro-batch takes layers `range` at most `limit`
  /// seconds, transfers of their own not counted; 0: no number that there is. `inFlight` 0: memory
  /// is not looked at.
  int leastCount(LayerRange range, int type, double limit, int microBatches, int inFlight);

  /// Samples of a full micro-batch.
  int64_t fullSize(int microBatches) const {
    return MicroBatches{problem.request.globalBatch, microBatches}.fullSize();
  }
  /// On one device of `type` with `share` of the samples of a micro-batch.
  const LayerTimes &timesOf(int type, int64_t share, int microBatches) {
    return costs.times.at(type, share, microBatches);
  }
  BatchSplit splitOf(int microBatches, bool isLast) const {
    return {fullSize(microBatches), microBatches, isLast, {}};
  }

  StageCosts costs;

private:
  /// How unlike devices share samples.
  struct Balanced {
    std::vector<std::vector<int64_t>> shares; // as StageEvaluation::shares
    std::vector<double> tableParts;           // as StageOption::tableParts
    bool isLimited = false;
  };
  /// Balanced stages that end at `end`, on groups with as many devices of each type as `counts`
  /// that lie differently; by their beginning and their execution mode.
  struct BalancedRow {
    llvm::SmallVector<std::pair<int, int>, 2> counts;
    int end = -1, microBatches = 0;
    llvm::DenseMap<uint64_t, Balanced> known;
  };
  const Balanced &balancedShares(LayerRange range, int microBatches, int inFlight,
                                 const StageOption &option);
  Balanced balanceShares(LayerRange range, int microBatches, int inFlight,
                         const StageOption &option);
  Balanced balanceSamples(LayerRange range, int microBatches, int inFlight,
                          const StageOption &option);
  std::vector<double> divideTables(LayerRange range, int inFlight, Shares shares,
                                   const StageOption &withoutTables);
  bool holdsShares(LayerRange range, int inFlight, Shares shares, StageOption &option);
  /// Need of a device of `type` of the group, with its rows of sparse tables.
  MemoryModel memoryOn(LayerRange range, int type, const StageOption &option);

  const Problem &problem;
  const SearchSpace &space;
  BalancedRow balanced;                           // the last one
  std::vector<ExecutionMode> modes, modesOfOne;   // the simplest first
  std::vector<ExecutionMode> byTime, byTimeOfOne; // the fastest first
  std::vector<std::vector<int>> forbidden; // [type][position]: pins against it before position
  std::vector<std::vector<int>> falling;   // the same: layers whose times may fall
  std::vector<int> farthestEnd; // by position: end of the longest stage there without a separation
};

/// Whether a stage that costs `a` takes no longer than one that costs `b`, whatever the other
/// stages are. A shorter backward pass hides less synchronisation, but its own end comes earlier by
/// as much.
bool dominates(const StageCost &a, const StageCost &b);

} // namespace heterplan
