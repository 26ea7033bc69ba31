#include "cost/Uncertainty.h"

#include <cmath>
#include <numeric>

namespace heterplan {

namespace {
// Quantiles of the standard normal distribution.
constexpr double quantile75 = 0.6745, quantile95 = 1.6449, quantile975 = 1.9600;
} // namespace

double usualHalfWidth(Provenance provenance) {
  switch (provenance) {
#define HETERPLAN_UNCERTAINTY(enumerator, halfWidth)                                               \
  case Provenance::enumerator:                                                                     \
    return halfWidth;
#include "cost/Uncertainty.def"
  }
  return 0;
}

double halfWidthOf95(double halfWidth) { return halfWidth * quantile95 / quantile975; }

double halfWidthOfMedian(double error) { return error * quantile95 / quantile75; }

double TimeSum::seconds() const { return std::accumulate(byOrigin.begin(), byOrigin.end(), 0.0); }

TimeInterval intervalOf(Seconds expected, const TimeSum &times) {
  double all = times.seconds();
  double layers = all > 0 ? times.offBy / all : usualHalfWidth(Provenance::Modelled);
  double factor = std::exp(std::hypot(layers, stepHalfWidth));
  return {expected / factor, expected * factor};
}

} // namespace heterplan
