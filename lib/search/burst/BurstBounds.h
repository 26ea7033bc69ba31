// What the stages before some cut add at least to those behind it, whatever their widths: what the
// search for widths cuts off by.
#pragma once

#include "search/burst/Branches.h"
#include "search/burst/BurstTable.h"

#include <vector>

namespace heterplan {

/// Of a sum of the time of an iteration and its device-time. The iteration takes time and what is
/// open at its end, which is at least what is open now and all sums to come less the backward
/// passes to come, and at least the sum of the first stage: `open` of the one and the rest of the
/// other.
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
  /// Likewise where the last of them has `width` itself, no move included.
  double within(int cut, int width) const { return own[place(cut, width)]; }
  /// Of all stages.
  double whole() const { return next[next.size() - size_t(widths)]; }

  double weighted(const BurstSums &sums) const {
    return weights.time * (sums.time + weights.open * sums.open) +
           weights.deviceTime * sums.deviceTime;
  }
  /// Of a plan that keeps `limits`.
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

/// What every plan keeps that keeps both of some limits: each of these sums of the two. Besides
/// each by itself those near the sum with which the bound on device-time is highest (Lagrangian
/// relaxation of the limit on time).
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
