// Lower bounds on what the layers that are not placed yet will add. Each holds for every placement
// of the search space, so a bound on the best completion is proven, not estimated.
#pragma once

#include "search/exact/Lagrangian.h"
#include "search/placement/StageTable.h"

#include <vector>

namespace heterplan {

/// Bounds for one number of micro-batches m, by a surrogate relaxation: the limits on the devices
/// of each type are replaced by one on their weighted sum Σ_t λ_t·devices_t (valid for any λ ≥ 0).
/// The λ are small integers where that leaves few sums, so that a limit on one type is kept
/// exactly; else the sum is taken in `levels` steps, rounded in favour of the bound. A
/// recursion over cut positions finds for every position and number of levels that are left
///   - the least max τ of the open stages,
///   - the least Σ τ plus exposed synchronisation when no open stage takes longer than T_k, for a
///     few thresholds T_k: an open part whose slowest stage lies in (T_{k−1}, T_k] adds at least
///     that and (m−1)·T_{k−1},
///   - the least Σ price·(m·τ + sync) (devices are paid for the whole iteration, which is at least
///     that of their stage).
/// Transfers enter by what they take at least, memory by what is in flight at least.
class Bounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. All but that
  /// outlive this.
  Bounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
         Lagrangian::Memory &memory);

  /// Least iteration time of any completion.
  double time(const PartialPlacement &partial) const;
  /// Least Evaluation::objective of any completion; infinite when the floor or the budget cannot
  /// hold. `timeLimit`: completions slower than that are of no interest.
  double objective(const PartialPlacement &partial, double timeLimit) const;
  /// Bound on the whole model.
  double root() const;
  /// Tightens the bounds where they are below what is of interest: `timeLimit` as `objective` has
  /// it, and an objective of `best`. Unless `isFinal`, only as far as `takeDeciding` needs it.
  void tighten(double timeLimit, double best, bool isFinal = true);
  /// After `tighten`: see Lagrangian::takeDeciding.
  std::optional<Lagrangian::Range> takeDeciding(double timeLimit, double best, size_t mostStages) {
    return lagrangian.takeDeciding(timeLimit, costOf(best), mostStages);
  }
  std::optional<Lagrangian::Range> takeAll(double timeLimit, double best) {
    return lagrangian.takeAll(timeLimit, costOf(best));
  }
  void setAside() { lagrangian.setAside(); }
  bool bringBack() { return lagrangian.bringBack(); }
  /// After `tighten`: makes them tighter step by step. See Lagrangian::sharpen.
  int64_t sharpen(double timeLimit) { return lagrangian.sharpen(timeLimit); }
  /// See Lagrangian::takePaths.
  std::vector<Lagrangian::Path> takePaths() { return lagrangian.takePaths(); }
  /// `tighten` begins from what others found, over fewer cuts or for `ratio` times as many
  /// micro-batches.
  void startFrom(const Lagrangian::Known &known, double ratio) {
    lagrangian.startFrom(known, ratio);
  }
  const Lagrangian::Known &multipliers() const { return lagrangian.multipliers(); }
  /// Price · iteration of an objective, in dollars per hour · seconds; infinite where it is time.
  double costOf(double objective) const { return paidFor(evaluator.problem.request, objective); }
  static double paidFor(const Request &request, double objective);
  double slowestAtLeast() const { return lagrangian.slowestAtLeast(); }
  /// Appends the stages before `partial` that a completion of interest may have; false where the
  /// bounds were never tightened, so that it may be any stage.
  bool listExtensions(const PartialPlacement &partial, double timeLimit, double best,
                      llvm::SmallVectorImpl<Lagrangian::Extension> &found);
  /// After `tighten`: the stages that a placement within its limits may have.
  std::vector<Lagrangian::StageChoice> listStages() const { return lagrangian.listStages(); }
  /// Least iteration time of any placement, seconds.
  double rootTime() const;

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
  void refine(double timeLimit);
  void solveFills(int threshold);
  PartialPlacement rootPlacement(std::vector<int> &none) const;
  int levelLeft(const PartialPlacement &partial) const;
  size_t place(int position, int level) const { return size_t(position) * (levels + 1) + level; }
  double fillOf(int threshold, int position, int level) const {
    return fills[size_t(threshold) * rests.size() + place(position, level)];
  }

  const Evaluator &evaluator;
  const int microBatches, positions;
  Lagrangian lagrangian;
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
  double cheapest = 0;              // price of the cheapest device
};

} // namespace heterplan
