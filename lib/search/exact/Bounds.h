// Lower bounds on what the layers that are not placed yet will add. Each holds for every placement
// of the search space, so a bound on the best completion is proven, not estimated.
#pragma once

#include "search/exact/Lagrangian.h"
#include "search/exact/steady/SteadyBounds.h"
#include "search/placement/StageTable.h"

#include <optional>
#include <vector>

namespace heterplan {

/// Bounds for one number of micro-batches: by multipliers on the devices (Lagrangian), or, where
/// the slowest stage alone decides, by one limit in place of all (SteadyBounds).
class Bounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. All but that
  /// outlive this.
  Bounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
         const SearchOptions &options);

  /// Least iteration time of any completion.
  double time(const PartialPlacement &partial) const;
  /// Least Evaluation::objective of any completion; infinite when the floor or the budget cannot
  /// hold. `timeLimit`: completions slower than that are of no interest.
  double objective(const PartialPlacement &partial, double timeLimit) const;
  /// Bound on the whole model. After `tighten` the multipliers tell it.
  double root() const;
  /// Tightens the bounds where they are below what is of interest: `timeLimit` as `objective` has
  /// it, and an objective of `best`.
  void tighten(double timeLimit, double best);
  /// After `tighten`: makes them tighter step by step. See Lagrangian::sharpen.
  int64_t sharpen(double timeLimit) { return lagrangian.sharpen(timeLimit); }
  /// See Lagrangian::takePaths.
  std::vector<Lagrangian::Path> takePaths() { return lagrangian.takePaths(); }
  /// `tighten` begins from what others found, over fewer cuts or for `ratio` times as many
  /// micro-batches.
  void startFrom(const KnownMultipliers &known, double ratio) {
    lagrangian.startFrom(known, ratio);
  }
  const KnownMultipliers &multipliers() const { return lagrangian.multipliers(); }
  /// Price · iteration of an objective, in dollars per hour · seconds; infinite where it is time.
  double costOf(double objective) const { return paidFor(evaluator.problem.request, objective); }
  static double paidFor(const Request &request, double objective);
  double slowestAtLeast() const { return lagrangian.slowestAtLeast(); }
  /// Appends the stages before `partial` that a completion of interest may have; false where the
  /// bounds were never tightened, so that it may be any stage.
  bool listExtensions(const PartialPlacement &partial, double timeLimit, double best,
                      llvm::SmallVectorImpl<StageSpan> &found);

private:
  PartialPlacement rootPlacement(std::vector<int> &none) const;

  const Evaluator &evaluator;
  const int microBatches, positions;
  Lagrangian lagrangian;
  std::optional<SteadyBounds> steady; // where the slowest stage alone decides
  double cheapest = 0;                // price of the cheapest device
};

} // namespace heterplan
