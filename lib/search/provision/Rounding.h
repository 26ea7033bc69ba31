// Provisioning in two steps (HeterPS, section 5): continuous sizes that balance the stages, then
// whole numbers. The Provisioner finds the best whole numbers at once; this is what they are
// compared with, and the roundings that people use.
#pragma once

#include "search/Search.h"
#include "search/placement/Evaluator.h"

namespace heterplan {

/// Sizes of the stages of one placement as real numbers, in steady state: with a limit
/// E on the time of a stage, stage i needs k_i(E) = max(least that holds it, parallel/(E − serial))
/// devices, and the cost E·Σ price·k_i(E) is convex in E.
class ContinuousSizes {
public:
  /// None where no sizes, however small a part of a device is, meet the limits; or where the
  /// iterationModel is not steady.
  static std::optional<ContinuousSizes> of(Evaluator &evaluator, const Placement &placement);

  /// No sizing of these stages has a smaller Evaluation::objective.
  double objective() const { return least; }
  /// Best sizes, by stage.
  std::vector<double> sizes() const { return sizesAt(bottleneck); }

  /// Whole numbers near the best sizes that meet all limits, whenever there are any; evaluated.
  ///   Ceiling      rounds up, at the best bottleneck stage time at which that fits
  ///   FloorRepair  rounds down, then adds to stages too slow for the floor and takes from others
  ///   Randomised   rounds up with the probability of the fraction, repairs, the best of some tries
  ///   Exact        is not for this class: see Provisioner
  std::optional<Placement> round(RoundingMethod method, uint64_t seed) const;

private:
  ContinuousSizes(Evaluator &evaluator, const Placement &placement);
  std::vector<double> sizesAt(double limit) const;
  std::vector<double> ceilingsAt(double limit) const;
  bool within(llvm::ArrayRef<double> sizes) const;
  double objectiveAt(double limit) const;
  bool solve();
  bool bottleneckLimits();
  std::optional<std::vector<double>> repaired(std::vector<double> counts) const;
  Placement placementOf(llvm::ArrayRef<double> counts) const;

  Evaluator &evaluator;
  Placement placement;
  std::vector<double> fewest;                      // devices that hold each stage
  double fastest = 0, slowest = 0, bottleneck = 0; // seconds of a stage
  double least = 0;
};

} // namespace heterplan
