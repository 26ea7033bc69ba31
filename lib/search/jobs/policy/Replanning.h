// Online scheduling at prices, with re-planning: when a job arrives, jobs that were admitted before
// are planned anew from that slot on, so that the new one fits. Nothing is known of later arrivals
// but the limits of the prices.
#pragma once

#include "search/jobs/policy/LeastCost.h"

#include <cstdint>
#include <vector>

namespace heterplan::jobs {

class Replanner {
public:
  /// `offers` are the options of the first offer to a job. With `Replan::KeepEnds` no admitted job
  /// ends later than it was told when it was admitted. Prices of the next `discounted` slots are
  /// discounted: see Prices::discountFrom(). `problem` must outlive it; it gets the choice of each
  /// job's workers, which is made on arrival.
  Replanner(Problem &problem, Prices prices, const OfferOptions &offers, Replan replan,
            int discounted = 0);

  /// Decides `job` in the slot in which it is released; jobs come in the order of
  /// Problem::arrivals(). A plan is kept if the utility of all jobs less the cost of all that they
  /// take rises. No admitted job is dropped.
  void decide(int job, RoundingCounts &counts);

  const Prices &marketPrices() const { return prices; }
  const Schedule &schedule() const { return plans; }

private:
  using Slots = std::map<int, Rows>;
  using Parts = std::vector<std::pair<int, Slots>>; // by job

  double worth() const { return utility - cost; }
  void put(int job, const Slots &slots);
  Slots takeOut(int job);
  bool insertAgain(int job, double scale);
  double looksOf(const Offer &offer) const;
  double doneBefore(int job) const;
  int lastOf(int job) const;
  bool mayMove(int job) const;
  std::vector<int> movable(int besides) const;
  std::vector<int> someOf(std::vector<int> jobs);
  void order(std::vector<int> &jobs, bool byEnd);
  bool tryAnew(std::vector<int> out, int added, bool byEnd, double scale);
  void admitDirectly(int job, RoundingCounts &counts);

  Problem &problem;
  Problem rest; // the same jobs; of the one that is planned only what it has left
  Prices prices;
  OfferOptions offers;
  Replan replan;
  Schedule plans;
  std::vector<int> ends;     // of the admitted jobs, as they were told; -1: none
  std::vector<int> admitted; // that have not ended, in ascending order
  std::vector<std::vector<int>> followers;
  double utility = 0, cost = 0, spent = 0;
  int now = 0, discounted = 0;
  uint64_t random;
};

} // namespace heterplan::jobs
