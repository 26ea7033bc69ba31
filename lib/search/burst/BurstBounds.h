// What the stages before some cut add at least to those behind it, whatever their widths: what the
// search for widths cuts off by.
#pragma once

#include "search/burst/Branches.h"
#include "search/burst/BurstTable.h"

#include <vector>

namespace heterplan {

/// Of a sum of the time of an iteration and its device-time.
struct BurstWeights {
  double time = 1, deviceTime = 0;
};

/// On both, seconds; may be infinite.
struct BurstLimits {
  double time = 0, deviceTime = 0;
};

/// The least weighted sums that stages from the beginning of the model to each cut take. Sums of
/// gradients count in device-time, but in time only that of the first stage, which nothing hides.
class Completions {
public:
  /// `branches`: those that may lie side by side; null: all stages run in turn.
  Completions(const BurstTable &table, const BranchTable *branches, BurstWeights weights);

  const BurstWeights weights;
  /// Up to `cut`, moves to a stage of `width` behind it included.
  double upTo(int cut, int width) const { return next[place(cut, width)]; }
  /// Likewise where the last of them has `width` itself, no move included.
  double within(int cut, int width) const { return own[place(cut, width)]; }
  /// Of all stages.
  double whole() const { return next[next.size() - size_t(widths)]; }

  double weighted(double time, double deviceTime) const {
    return weights.time * time + weights.deviceTime * deviceTime;
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

  const int widths;
  std::vector<double> next, own; // by cut and width
};

/// What every plan keeps that keeps both of some limits: each of these sums of the two. Besides
/// each by itself those near the sum with which the bound on device-time is highest (Lagrangian
/// relaxation of the limit on time).
class BurstBounds {
public:
  BurstBounds(const BurstTable &table, const BranchTable *branches, const BurstGoal &goal);

  /// On what `goal` asks to be least; infinite where no plan keeps its limit on time.
  double whole() const { return least; }
  /// Of the sum by which it was found.
  double weighted(double time, double deviceTime) const {
    return sums[best].weighted(time, deviceTime);
  }
  /// How much of that sum is left of `limits` for what lies between `cut`, where a stage of `width`
  /// ends, and stages that take `time` and `deviceTime`.
  double roomFor(double time, double deviceTime, int cut, int width, BurstLimits limits) const {
    return sums[best].most(limits) - weighted(time, deviceTime) - sums[best].within(cut, width);
  }

  /// Whether some plan keeps `limits` whose stages behind `cut` take `time` and `deviceTime`.
  /// `isOwn`: the stage before the cut has the width, else the one behind it.
  bool allow(double time, double deviceTime, int cut, int width, bool isOwn,
             BurstLimits limits) const;

private:
  void addLagrangian(const BurstTable &table, const BranchTable *branches, double longest);

  std::vector<Completions> sums;
  size_t best = 0;
  double least = 0;
};

} // namespace heterplan
