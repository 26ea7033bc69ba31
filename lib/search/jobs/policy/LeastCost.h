// The schedule of least cost of one job at given prices, for each slot in which it may end: a
// dynamic program over slots and work (Yu et al., arXiv 2108.02917, algorithm 3).
#pragma once

#include "search/jobs/SlotOptions.h"
#include "search/jobs/policy/Policy.h"
#include "search/jobs/policy/Prices.h"

#include <limits>
#include <map>
#include <optional>

namespace heterplan::jobs {

/// The best schedule that PD-ORS found for one job.
struct Offer {
  std::map<int, Rows> slots; // empty: no schedule before the horizon
  double utility = 0, cost = 0;
  /// Least cost with which the job ends by each slot, from the first on; infinite where it cannot.
  /// Spreads are greedy in it, and work is in whole parts.
  std::vector<double> costs;

  double payoff() const { return utility - cost; }
};

/// Slots that are looked at before it is asked whether later ones can be better: fewer where many
/// nodes make each of them dear.
int firstWindow(const Problem &problem);

/// How offers are made.
struct OfferOptions {
  Locality locality = Locality::Both;
  std::optional<RoundingOptions> rounding; // none: spreads stay greedy
  uint64_t seed = 0;
  /// Look at every slot until the horizon. Otherwise the search ends where later slots cannot raise
  /// the pay-off by more than a hundredth of the utility.
  bool wholeHorizon = false;
  double costScale =
      1; // of costs against utility, where the offer of the highest pay-off is chosen
  int last = std::numeric_limits<int>::max(); // slot in which the job may end
  /// Looks at a site in a slot: the search ends with what it has found after so many, and without
  /// an offer after the most.
  double looks = 5e4, mostLooks = std::numeric_limits<double>::infinity();
};

/// The offer of the highest pay-off to `job` from slot `from` on; one without slots where it cannot
/// end before the horizon. Work is divided into equal parts, so that a slot trains a whole number
/// of them; what whole workers train beyond that is taken off the slots that follow. For a job that
/// restarts or must not be moved, schedules with the same rows in all slots are tried, too.
Offer bestOffer(const Problem &problem, int job, int from, const Prices &prices,
                const OfferOptions &options, RoundingCounts &counts);

} // namespace heterplan::jobs
