#include "search/exact/SubgradientAscent.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

bool SubgradientAscent::take(double bound) {
  value = bound;
  const bool isBest = value > most;
  stalled = value > most + tuning.worthStepping * std::abs(most) ? 0 : stalled + 1;
  most = std::max(most, value);
  return isBest;
}

bool SubgradientAscent::step(ArrayRef<double> slope, double goal) {
  double norm = 0;
  for (size_t i = 0; i < slope.size(); ++i)
    norm += multipliers[i] > 0 || slope[i] > 0 ? slope[i] * slope[i] : 0;
  if (norm == 0)
    return false; // no multiplier can grow, none can shrink: the optimum
  if (stalled >= tuning.patience) {
    stride /= 2;
    stalled = 0;
  }
  const double reach = (std::isfinite(goal) ? goal : most + std::abs(most)) - value;
  for (size_t i = 0; i < slope.size(); ++i)
    multipliers[i] = std::max(0.0, multipliers[i] + stride * reach / norm * slope[i]);
  return true;
}

} // namespace heterplan
