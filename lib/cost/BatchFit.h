// How long a pass takes at batches that were not measured: the measured ones made monotone, lines
// between them, and the form max(t_floor, m·b + c) of LB-BSP outside of them.
#pragma once

#include "support/Units.h"

#include <utility>
#include <vector>

namespace heterplan {

/// Time of one pass of one layer as a function of the batch; never falls, never below 0.
class BatchFit {
public:
  using Points = std::vector<std::pair<Samples, Seconds>>;

  BatchFit() = default;
  /// `measured` has ascending batches, at least one. O(n log n).
  ///
  /// The measurements themselves may fall, by noise or by an outlier. The fit is the non-decreasing
  /// sequence with the least sum of absolute differences to the measurements: one outlier among
  /// many does not move it. Source: Stout, Isotonic Regression via Partitioning, Algorithmica 2013
  /// (L1).
  explicit BatchFit(const Points &measured);

  /// - Between two measured batches: linear.
  /// - Beyond the largest: max(its time, m·b + c), where m·b + c is the line with the least
  /// relative
  ///   squared error through the points that lie above the floor.
  /// - Below the smallest: m·b + c, but no more than the time of the smallest, and no less than the
  ///   floor; where no floor was seen, no less than in proportion to the batch.
  /// - One point: proportional to the batch.
  /// A floor was seen where the time of the second batch has grown by less than a quarter of what
  /// the batch has. Source: Chen et al., SoCC 2020, section 4 (LB-BSP).
  Seconds at(Samples batch) const;

  /// The monotone time of the `index`-th point.
  Seconds fitted(size_t index) const { return points[index].second; }

private:
  Seconds line(Samples batch) const;
  Seconds below(Samples batch) const;
  void fitLine();

  Points points; // monotone
  bool hasFloor = false;
  double slope = 0, intercept = 0; // seconds a sample, seconds
};

} // namespace heterplan
