// Subgradient ascent of Lagrange multipliers (Held, Wolfe and Crowder, 1974).
#pragma once

#include "search/exact/Tuning.h"

#include <limits>
#include <utility>
#include <vector>

namespace heterplan {

/// Polyak's steps towards a goal, which are halved when they do not help.
class SubgradientAscent {
public:
  /// `tuning` outlives this.
  SubgradientAscent(std::vector<double> start, const Tuning &tuning)
      : multipliers(std::move(start)), tuning(tuning) {}

  /// Tells the ascent the bound at `multipliers`. Returns whether it is the best one so far.
  bool take(double value);
  double best() const { return most; }
  /// Moves the multipliers, which stay at least 0, along `slope`, a subgradient at them, as if the
  /// bound at the optimum were `goal`; without one (infinite), twice the best bound, which is
  /// positive then. False: none of them can change, so that they are optimal.
  bool step(llvm::ArrayRef<double> slope, double goal);

  std::vector<double> multipliers;

private:
  const Tuning &tuning;
  double value = 0, most = -std::numeric_limits<double>::infinity(), stride = 1;
  int stalled = 0;
};

} // namespace heterplan
