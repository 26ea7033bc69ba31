// The resources that placements share: devices of each type, and money where there is a budget.
#pragma once

#include "search/network/PartialPlacement.h"
#include "search/placement/Evaluator.h"

#include <vector>

namespace heterplan {

/// Multipliers are by resource and say what all there is of it costs; one more behind them is for
/// seconds (Lagrangian).
class Resources {
public:
  explicit Resources(const Evaluator &evaluator);

  size_t count() const { return limits.size(); }
  double limit(int type) const { return limits[type]; }
  /// The use that a stage on `option` makes of a resource, as a share of the limit.
  double use(int option, size_t resource) const {
    return shares[option * limits.size() + resource];
  }
  /// Dollars per hour of the devices of `option`.
  double price(int option) const { return prices[option]; }
  /// The price that stages pay under `multipliers`, by option.
  std::vector<double> charges(const std::vector<double> &multipliers) const;
  /// The worth of the resources that `partial` leaves.
  double refund(const std::vector<double> &multipliers, const PartialPlacement &partial) const;

private:
  const size_t types;
  std::vector<double> limits, shares, prices;
};

} // namespace heterplan
