// Bounds by a surrogate relaxation: one limit, on a weighted sum of the devices, in place of those
// on the devices of each type.
#pragma once

#include "search/exact/Lagrangian.h"
#include "search/placement/StageTable.h"

#include <vector>

namespace heterplan {

/// Bounds for one number of micro-batches m: the limits on the devices of each type are replaced by
/// one on their weighted sum Σ_t λ_t·devices_t (valid for any λ ≥ 0). The λ are small integers
/// where that leaves few sums, so that a limit on one type is kept exactly; else the sum is taken
/// in `levels` steps, rounded in favour of the bound. A recursion over cut positions finds for
/// every position and number of levels that are left
///   - the least max τ of the open stages,
///   - the least Σ τ plus exposed synchronisation when no open stage takes longer than T_k, for a
///     few thresholds T_k: an open part whose slowest stage lies in (T_{k−1}, T_k] adds at least
///     that and (m−1)·T_{k−1},
///   - the least Σ price·(m·τ + sync) (devices are paid for the whole iteration, which is at least
///     that of their stage).
/// Transfers enter by what they take at least, memory by what is in flight at least.
class SurrogateBounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. `evaluator`
  /// outlives this.
  SurrogateBounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups);

  /// Chooses the T_k so that they tell most of iterations up to `timeLimit` seconds.
  void refine(double timeLimit);
  /// Least iteration time of any completion, seconds; some layers are open.
  double time(const PartialPlacement &partial) const;
  /// Least Σ price·(m·τ + sync) of its open stages, dollars per hour · seconds.
  double paid(const PartialPlacement &partial) const {
    return rests[place(partial.position, levelLeft(partial))].paid;
  }

private:
  /// The best figures of the stages between two positions that take the same number of levels.
  struct Bucket {
    int taken; // levels
    double time, sync, paid;
  };
  /// Least figures of the open layers before a position at some level: seconds, dollars per hour ·
  /// seconds.
  struct Rest {
    double slowest, paid;
  };

  void setWeights(const StageTable &table);
  void setLevels();
  void setLeastForward(const StageTable &table);
  void fillBuckets(const StageTable &table, bool wholeModelGroups);
  void addToBucket(const StageTable &table, int begin, int end, int option, Bucket &bucket) const;
  template <typename Relax> void overLastStages(Relax relax) const;
  void solveRests();
  void setThresholds(double longest, int steps);
  bool weighInIntegers(int mostLevels);
  void solveFills(int threshold);
  int levelLeft(const PartialPlacement &partial) const;
  size_t place(int position, int level) const { return size_t(position) * (levels + 1) + level; }
  double fillOf(int threshold, int position, int level) const {
    return fills[size_t(threshold) * rests.size() + place(position, level)];
  }

  const Evaluator &evaluator;
  const int microBatches, positions;
  std::vector<double> weights;      // λ, by type
  int levels = 0;                   // all devices take so many
  double levelStep = 1;             // weight of one level
  int leastLevel = 1;               // what any open stage needs: 0 where a type weighs nothing
  std::vector<int> optionLevels;    // levels that an option takes, rounded down
  std::vector<double> leastForward; // by position: Σ of the open layers' least forward times
  std::vector<Bucket> buckets;      // by end, begin and levels
  std::vector<size_t> firstBucket;  // of each pair of positions
  std::vector<Rest> rests;          // by position and level
  std::vector<double> thresholds;   // T_k, ascending; the last is infinite
  std::vector<double> fills;        // by threshold, position and level
};

} // namespace heterplan
