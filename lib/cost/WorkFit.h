// A power law from the work of layers to the time of a pass: what layers of one class that were
// measured say about one that was not.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <string>
#include <vector>

namespace heterplan {

/// Logarithms of the floating-point operations, the bytes moved and the samples of one pass.
using WorkFeatures = std::array<double, 3>;
WorkFeatures workFeatures(Flops work, Bytes moved, Samples batch);

/// A measured pass.
struct WorkSample {
  WorkFeatures features{};
  Seconds time{};     // above 0
  unsigned layer = 0; // samples of one layer have one number
};

/// log t = w_0 + Σ w_i·feature_i by ridge least squares in closed form, λ = 1e-3 on standardised
/// features, with w_i >= 0: more work never takes less time. The few subsets of features are tried
/// one by one, so that the non-negative optimum is exact.
///
/// Samples off the first fit by more than five standard deviations, judged by the median absolute
/// deviation, and by more than a factor of three are outliers and left out of the second.
///
/// The error is that of leaving one layer out, all its batches at once: the others are fitted
/// again, and their fit is compared with the layer's samples, as shares of what was measured.
class WorkFit {
public:
  static constexpr size_t leastLayers = 4, leastSamples = 6;
  static constexpr double largestError = 0.5;

  WorkFit() = default;
  /// O(samples).
  explicit WorkFit(llvm::ArrayRef<WorkSample> samples);

  /// Why the fit must not be used: fewer than leastLayers layers or leastSamples samples, or a
  /// median error above largestError. Empty: it may be.
  std::string refusal() const;
  /// Time of a pass; the fit has samples. Beyond the most operations or bytes that were measured,
  /// the time grows in proportion to them. More samples alone are no more work: many samples of a
  /// small layer may do less than one of a large layer.
  Seconds at(const WorkFeatures &features) const;

  size_t samples() const { return count; }
  size_t layers() const { return layerCount; }
  double medianError() const { return median; }
  double worstError() const { return worst; }
  /// Indices of the samples that were left out, ascending.
  const std::vector<size_t> &outliers() const { return leftOut; }

private:
  struct Law {
    double constant = 0;
    WorkFeatures exponents{};
    double logTime(const WorkFeatures &features) const;
  };
  class Moments;
  static Law solve(const Moments &moments);
  void findOutliers(llvm::ArrayRef<WorkSample> samples);
  void measureErrors(llvm::ArrayRef<WorkSample> kept, const Moments &all);

  Law law;
  WorkFeatures largest{};
  size_t count = 0, layerCount = 0;
  double median = 0, worst = 0;
  std::vector<size_t> leftOut;
};

} // namespace heterplan
