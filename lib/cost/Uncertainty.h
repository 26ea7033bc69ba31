// By how much predicted times may be off: half-widths of 90 % intervals, relative (of the natural
// logarithm), from the spreads of measurements and the residuals of fits.
#pragma once

#include "cost/CostModel.h"
#include "ir/Plan.h"

#include <array>

namespace heterplan {

/// Seconds by where they come from.
using SecondsByOrigin = std::array<double, provenances>;

/// The usual half width of times of this provenance.
double usualHalfWidth(Provenance provenance);

inline double halfWidthOf(const LayerCost &cost) {
  return cost.halfWidth > 0 ? cost.halfWidth : usualHalfWidth(cost.provenance);
}

/// The half width of a 90 % interval from the half width of the 95 % interval of a normal
/// distribution.
double halfWidthOf95(double halfWidth);
/// The half width of a 90 % interval from the median of the absolute errors.
double halfWidthOfMedian(double error);

/// A sum of times, where they come from, and by how much they may be off together: all in the same
/// direction, so that half-widths are weighted by time.
struct TimeSum {
  SecondsByOrigin byOrigin{};
  double offBy = 0; // Σ seconds · half-width

  void add(Provenance origin, double seconds, double halfWidth) {
    byOrigin[static_cast<size_t>(origin)] += seconds;
    offBy += seconds * halfWidth;
  }
  void add(Provenance origin, double seconds) { add(origin, seconds, usualHalfWidth(origin)); }
  double seconds() const;
};

/// The deviation of steps from predictions with measured layers, beyond the error of the layers:
/// the largest tenth of 77 plans begins there (docs/profiles.md, "How sure a prediction is").
constexpr double stepHalfWidth = 0.17;

/// The 90 % interval of a run that should take `expected` and is made of `times`: what their
/// half-width and that of a step come to. Both are taken to be independent.
TimeInterval intervalOf(Seconds expected, const TimeSum &times);

} // namespace heterplan
