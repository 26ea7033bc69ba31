// One arrival of a primal-dual policy: the offer of the highest pay-off is taken if it pays. Used
// for whole workloads and, one job at a time, online.
#pragma once

#include "search/jobs/policy/LeastCost.h"

namespace heterplan::jobs {

/// The best of the offers to `job` for each choice of its workers, which `problem` has then: see
/// bestOffer().
Offer chooseOffer(Problem &problem, int job, int from, const Prices &prices,
                  const OfferOptions &options, RoundingCounts &counts);

/// Decides `job` from slot `from` on, with the choice of its workers; if it is admitted, `prices`
/// rise.
JobPlan decide(Problem &problem, int job, int from, Prices &prices, const OfferOptions &options,
               RoundingCounts &counts);

/// Why `job` was admitted or declined that may start in slot `from` and got `offer`.
std::string reasonOf(const Problem &problem, int job, int from, const Offer &offer);

/// The first slot in which `job` may start after the jobs that it waits for, which are decided;
/// none where one of them is declined.
std::optional<int> startAfter(const Problem &problem, int job, const Schedule &schedule);

/// Decides all jobs in their order of arrival, with price limits from all of them.
PolicyResult runPrimalDual(const Problem &problem, const PolicyOptions &options,
                           const OfferOptions &offers);

} // namespace heterplan::jobs
