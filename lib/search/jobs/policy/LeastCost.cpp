#include "search/jobs/policy/LeastCost.h"

#include "search/jobs/policy/RoundedSpread.h"
#include "search/jobs/policy/SlotPolicy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Parts of the most that a slot can train: finer where few slots suffice.
int partsOfSlot(double slotsNeeded) {
  return std::clamp(static_cast<int>(64 / slotsNeeded), 4, 32);
}

class Search {
public:
  Search(const Problem &problem, int index, int from, const Prices &prices,
         const OfferOptions &options, RoundingCounts &counts)
      : problem(problem), index(index), job(problem.job(index)), from(from), prices(prices),
        options(options), counts(counts) {}

  Offer run() {
    divide();
    if (parts == 0)
      return {};
    fill();
    int end = bestEnd();
    Offer offer = end < 0 ? Offer{} : follow(end);
    for (int slot = from; slot < problem.slots(); ++slot)
      offer.costs.push_back(least[cell(slot, parts)]);
    return offer;
  }

private:
  SlotState stateOf(int slot) const {
    return {prices.freeIn(slot), prices.inSlot(slot), prices.growth()};
  }

  /// Parts of the job's work such that the fullest slot trains a whole number of them.
  void divide() {
    double most = 0;
    for (int slot = from; slot < problem.slots(); ++slot) {
      ways.emplace_back(problem, index, stateOf(slot), SlotLimits{job.work()}, options.locality);
      most = std::max(most, ways.back().most());
    }
    double slotsNeeded = std::ceil(job.work() / most * (1 - 1e-9));
    if (!(most > 0) || slotsNeeded > problem.slots() - from)
      return;
    partsInSlot = partsOfSlot(slotsNeeded);
    part = most / partsInSlot;
    parts = static_cast<int>(std::ceil(job.work() / part * (1 - 1e-9)));
  }

  size_t cell(int slot, int done) const { return size_t(slot - from) * (parts + 1) + done; }

  /// least[slot][done]: least cost of `done` parts up to the end of `slot`; taken: of these, in it.
  void fill() {
    int slots = problem.slots() - from;
    least.assign(size_t(slots) * (parts + 1), infinity);
    taken.assign(least.size(), 0);
    for (int slot = from; slot < problem.slots(); ++slot) {
      std::vector<double> costs = costsIn(slot);
      for (int done = 0; done <= parts; ++done)
        fillCell(slot, done, costs);
    }
  }

  std::vector<double> costsIn(int slot) const {
    std::vector<double> costs{0};
    const SlotOptions &ways = this->ways[slot - from];
    double most = ways.most() * (1 + 1e-12);
    for (int now = 1; now <= std::min(partsInSlot, parts) && worth(now) <= most; ++now)
      costs.push_back(ways.cost(worth(now)));
    return costs;
  }

  /// Samples of `count` parts; the last part may be smaller.
  double worth(int count) const { return std::min(count * part, job.work()); }

  void fillCell(int slot, int done, const std::vector<double> &costs) {
    size_t here = cell(slot, done);
    for (int now = 0; now <= std::min(done, int(costs.size()) - 1); ++now) {
      double before = slot > from       ? least[cell(slot - 1, done - now)]
                      : done - now == 0 ? 0
                                        : infinity;
      if (before + costs[now] < least[here]) {
        least[here] = before + costs[now];
        taken[here] = now;
      }
    }
  }

  /// The slot to end in with the highest pay-off; the earliest of equals. -1: none.
  int bestEnd() const {
    int best = -1;
    double highest = -infinity;
    for (int slot = from; slot < problem.slots(); ++slot) {
      double payoff = job.utility.at(slot - job.arrival) - least[cell(slot, parts)];
      if (payoff > highest) {
        highest = payoff;
        best = slot;
      }
    }
    return best;
  }

  /// The rows of the schedule that ends in `end`.
  Offer follow(int end) {
    std::vector<std::pair<int, int>> amounts; // slot, parts
    for (int slot = end, done = parts; slot >= from && done > 0; --slot) {
      int now = taken[cell(slot, done)];
      if (now > 0)
        amounts.emplace_back(slot, now);
      done -= now;
    }
    std::reverse(amounts.begin(), amounts.end());
    Offer offer;
    double left = job.work(), owed = 0;
    for (auto [slot, count] : amounts) {
      owed += worth(count);
      // Whole workers may have trained more before than was asked of them.
      double needed = std::min(left, owed - (job.work() - left));
      if (needed <= job.work() * 1e-10)
        continue;
      SlotPlan plan = planIn(slot, needed);
      left -= plan.samples;
      offer.cost += plan.cost;
      offer.slots[slot] = std::move(plan.rows);
    }
    if (!isDone(job, job.work() - left))
      return {};
    offer.utility = job.utility.at(offer.slots.rbegin()->first - job.arrival);
    return offer;
  }

  SlotPlan planIn(int slot, double samples) {
    SlotPlan plan = ways[slot - from].plan(samples);
    if (!options.rounding)
      return plan;
    SpreadRounding rounding{*options.rounding, options.seed * 1'000'003 + uint64_t(index),
                            uint64_t(slot)};
    std::optional<SlotPlan> rounded =
        roundedSpread(problem, index, stateOf(slot), samples, plan.cost, rounding, counts);
    return cheaperOf(std::move(plan), std::move(rounded), counts);
  }

  static SlotPlan cheaperOf(SlotPlan greedy, std::optional<SlotPlan> rounded,
                            RoundingCounts &counts) {
    if (!rounded || rounded->cost >= greedy.cost)
      return greedy;
    ++counts.chosen;
    return std::move(*rounded);
  }

  const Problem &problem;
  int index;
  const Job &job;
  int from;
  const Prices &prices;
  const OfferOptions &options;
  RoundingCounts &counts;
  std::vector<SlotOptions> ways; // by slot from `from` on
  double part = 0;               // samples
  int parts = 0, partsInSlot = 0;
  std::vector<double> least;
  std::vector<int> taken;
};
} // namespace

Offer bestOffer(const Problem &problem, int job, int from, const Prices &prices,
                const OfferOptions &options, RoundingCounts &counts) {
  return Search(problem, job, from, prices, options, counts).run();
}

} // namespace heterplan::jobs
