// The order of some device groups in a pipeline, and the cuts between them, decided together by
// dynamic programming. Moves of one stage or one cut cannot exchange stages whose sizes differ,
// since each step on the way is worse.
#pragma once

#include "search/network/StageArc.h"
#include "search/placement/Evaluator.h"

#include <array>
#include <limits>
#include <map>
#include <vector>

namespace heterplan {

class StageOrders {
public:
  /// Most groups that `best` orders.
  static constexpr size_t mostGroups = 7;

  /// The evaluator outlives this.
  explicit StageOrders(Evaluator &evaluator);

  /// Pipelines of `microBatches` whose stages are on different ones of `groups`, which have one
  /// type each: for each set of groups the order and the cuts that were found, the best first, at
  /// most `most`. The figures are those of the formula for iterations, and only two pipelines from
  /// a layer on are kept for each set of groups, so that a better one may be missed. Placements
  /// with an objective of `limit` or more are left out.
  std::vector<Placement> best(llvm::ArrayRef<DeviceGroup> groups, int microBatches, size_t most,
                              double limit);
  /// Stages that were evaluated, and of steps some share; in the unit of a SearchBudget.
  int64_t work() const { return evaluated + steps / stepsPerWork; }

private:
  /// The best pipeline found from a layer on, on some set of groups.
  struct Tail {
    StageSums sums = {};
    double objective = std::numeric_limits<double>::infinity();
    double hidden = std::numeric_limits<double>::infinity(); // objective without exposed sums
    double price = 0;                                        // dollars per hour
    const StageTimes *stage = nullptr;                       // its first one
    double gradient = 0;      // seconds in which that receives its gradients
    int group = -1, end = -1; // of that
    size_t kind = 0;          // of the pipeline behind it
  };
  /// The pipelines that are kept: the best one, and the best one if stages in front hide the sums
  /// of gradients that are still exposed.
  static constexpr size_t kinds = 2;
  /// Times of the stages on one group, by their beginning and end; a share of −1: not known yet.
  using Times = std::vector<StageTimes>;

  static double infinity() { return std::numeric_limits<double>::infinity(); }
  Tail &tailAt(size_t set, int begin, size_t kind = 0) {
    return tails[(set * size_t(blocks + 1) + size_t(begin)) * kinds + kind];
  }
  void keep(const Tail &tail, size_t set, int begin);
  bool fit(llvm::ArrayRef<DeviceGroup> groups, size_t set) const;
  Times &timesOf(const DeviceGroup &group, int microBatches, int inFlight, bool isLast);
  const StageTimes &stageAt(Times &of, int begin, int end, const DeviceGroup &group,
                            int microBatches, StagePlace place);
  Tail withStageBefore(const Tail &behind, const StageTimes &stage,
                       const BoundaryCost &boundary) const;
  void extend(llvm::ArrayRef<DeviceGroup> groups, size_t set, int group, int microBatches,
              double limit);
  void putBefore(const Tail &behind, int end, llvm::ArrayRef<DeviceGroup> groups, size_t set,
                 int group, int microBatches, double limit);
  Placement placementOf(llvm::ArrayRef<DeviceGroup> groups, size_t set, int microBatches);

  Evaluator &evaluator;
  const int blocks;
  static constexpr int64_t stepsPerWork = 64;
  std::vector<Tail> tails; // by set of groups, position and kind
  /// By type, devices, micro-batches, micro-batches in flight, and whether no stage follows.
  std::map<std::array<int, 5>, Times> known;
  int64_t evaluated = 0, steps = 0;
};

} // namespace heterplan
