// The market that an arriving job met under a primal-dual policy: what was taken and at which
// prices, what it would have cost to end by each slot, and who holds what it needs.
#pragma once

#include "search/jobs/policy/LeastCost.h"

#include <vector>

namespace heterplan::jobs {

struct Explanation {
  /// Prices in one slot, by resource: the least price of a unit on any node, and the share of all
  /// that is taken.
  struct Market {
    std::array<double, resources> price{}, taken{};
  };
  /// A job that was admitted before and holds some of the resources in the slots looked at.
  struct Holder {
    int job = 0;
    std::array<double, resources> share{}; // of the cluster's resource-slots
  };

  int job = 0;
  PriceLimits limits;
  std::vector<Market> markets;        // by slot, from its arrival on
  Offer offer;                        // of the highest pay-off, whether it pays or not
  std::array<double, resources> paid; // of the offer's cost, by resource
  std::vector<Holder> holders;        // most of the scarcest resource first

  /// Least value of the utility (all else as it is) from which on the job would be admitted;
  /// infinite where no schedule ends before the horizon in what is free.
  double leastValue = 0;
};

/// Explains the decision about `job` that is made at `prices`, given what was decided before.
Explanation explain(const Problem &problem, int job, const Prices &prices,
                    const OfferOptions &options, const Schedule &before);

/// As JSON, with the decision.
std::string toJson(const Problem &problem, const Explanation &explanation, const JobPlan &decision);

} // namespace heterplan::jobs
