// A lower bound on the time that the stages before a cut add to those behind it, for any widths.
// The search for widths prunes by it.
#pragma once

#include "search/burst/Branches.h"
#include "search/burst/BurstTable.h"

#include <vector>

namespace heterplan {

/// Weights of the sum of the iteration time and the device time. The iteration time includes the
/// open synchronisation at its end. It is at least the open synchronisation now plus all later
/// sums, less the remaining backward passes, and at least the sum of the first stage. The bound
/// takes `open` of the first and the rest of the second.
struct BurstWeights {
  double time = 1, deviceTime = 0;
  double open = 0; // 0 to 1
};

/// On both, seconds; may be infinite.
struct BurstLimits {
  double time = 0, deviceTime = 0;
};

/// The least weighted sums that stages from the beginning of the model to each cut take.
class Completions {
public:
  /// `branches`: those that may lie side by side; null: all stages run in turn.
  Completions(const BurstTable &table, const BranchTable *branches, BurstWeights weights);

  BurstWeights weights;
  /// Up to `cut`, moves to a stage of `width` behind it included.
  double upTo(int cut, int width) const { return next[place(cut, width)]; }
  /// The bound for stages whose last one has `width`, without a move behind it.
  double within(int cut, int width) const { return own[place(cut, width)]; }
  /// The bound for all stages.
  double whole() const { return next[next.size() - size_t(widths)]; }

  double weighted(const BurstSums &sums) const {
    return weights.time * (sums.time + weights.open * sums.open) +
           weights.deviceTime * sums.deviceTime;
  }
  /// The largest weighted sum of a plan within `limits`.
  double most(BurstLimits limits) const {
    return (weights.time > 0 ? weights.time * limits.time : 0) +
           (weights.deviceTime > 0 ? weights.deviceTime * limits.deviceTime : 0);
  }

private:
  size_t place(int cut, int width) const { return size_t(cut) * size_t(widths) + size_t(width); }
  double leastEnding(const BurstTable &table, int end, int width) const;
  double leastOfBranches(const BranchTable &branches, int end) const;

  int widths;
  std::vector<double> next, own; // by cut and width
};

/// A choice of lanes, and what it adds at least to the sum by which the bound was found.
struct RankedLanes {
  int choice = 0;
  double least = 0;
};

/// Conditions on every plan within two limits: bounds on several weighted sums of the two
/// quantities. Besides each quantity by itself, the sums are those near the one with the highest
/// bound on device time (Lagrangian relaxation of the limit on time).
class BurstBounds {
public:
  BurstBounds(const BurstTable &table, const BranchTable *branches, const BurstGoal &goal);

  /// On what `goal` asks to be least; infinite where no plan keeps its limit on time.
  double whole() const { return least; }
  /// The choices of a block, ascending.
  llvm::ArrayRef<RankedLanes> ranked(int block) const { return orders[size_t(block)]; }
  /// How much of that sum is left of `limits` for what lies between `cut`, where a stage of `width`
  /// ends, and stages that take `behind`.
  double roomFor(const BurstSums &behind, int cut, int width, BurstLimits limits) const {
    const Completions &sum = sums[best];
    return sum.most(limits) - sum.weighted(behind) - sum.within(cut, width);
  }

  /// Whether some plan keeps `limits` whose stages behind `cut` take `behind`. `isOwn`: the stage
  /// before the cut has the width, else the one behind it.
  bool allow(const BurstSums &behind, int cut, int width, bool isOwn, BurstLimits limits) const;

private:
  void findLeast(const BurstGoal &goal);
  void rankLanes(int block);
  bool add(BurstWeights weights, double longest);
  void addLagrangian(double longest);

  const BurstTable &table;
  const BranchTable *const branches;

  std::vector<Completions> sums;
  std::vector<std::vector<RankedLanes>> orders; // by block
  size_t best = 0;
  double least = 0;
};

} // namespace heterplan
