// How fast a proof advances, so that a search ends that would not end with a proof.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

namespace heterplan {

class ProofProgress {
public:
  /// `window`: the share of all work over which the rate is taken.
  explicit ProofProgress(double window) : window(window) {}

  /// `bound`, the least one, holds after this share of all work. Shares ascend.
  void add(double share, double bound) { points.push_back({share, bound}); }

  /// The part of the way from the last bound to `goal` that the rest of the work makes at the rate
  /// of the last window; 1 as long as there is no whole window, or no goal. Bounds rise ever more
  /// slowly, so that it is less in truth.
  double promised(double goal) const {
    if (points.empty() || std::isinf(goal))
      return 1;
    const auto [share, bound] = points.back();
    for (auto point = points.rbegin(); point != points.rend(); ++point)
      if (const double passed = share - point->first; passed >= window)
        return (bound - point->second) / passed * (1 - share) / (goal - bound);
    return 1;
  }

private:
  double window;
  std::vector<std::pair<double, double>> points; // shares of work and bounds
};

} // namespace heterplan
