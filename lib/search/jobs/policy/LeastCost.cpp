#include "search/jobs/policy/LeastCost.h"

#include "search/jobs/policy/RoundedSpread.h"
#include "search/jobs/policy/SlotPolicy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Parts of the most that a slot can train: finer where few slots suffice.
int partsOfSlot(double slotsNeeded) {
  constexpr double many = 128;
  return std::clamp(static_cast<int>(64 / slotsNeeded), slotsNeeded > many ? 2 : 4, 32);
}

/// The ways of a job to use each slot, from the first that counts on.
using WaysOfSlots = std::vector<std::shared_ptr<const SlotOptions>>;

class Search {
public:
  /// Adds the slots to `ways` that a search with an earlier last slot did not look at.
  Search(const Problem &problem, int index, int from, int last, const Prices &prices,
         const OfferOptions &options, WaysOfSlots &ways, RoundingCounts &counts)
      : problem(problem), index(index), job(problem.job(index)), from(from), last(last),
        prices(prices), options(options), counts(counts), ways(ways) {}

  /// The offer with greedy spreads.
  Offer run() {
    divide();
    if (parts == 0)
      return {};
    fill();
    return offerWith(false);
  }

  /// The offer of run(), with spreads that are rounded where that is cheaper.
  Offer rounded() { return parts == 0 ? Offer{} : offerWith(true); }

private:
  Offer offerWith(bool mayRound) {
    int end = bestEnd();
    Offer offer = end < 0 ? Offer{} : follow(end, mayRound);
    for (int slot = from; slot <= last; ++slot)
      offer.costs.push_back(least[cell(slot, parts)]);
    return offer;
  }

  /// Parts of the job's work such that the fullest slot trains a whole number of them.
  void divide() {
    SlotLimits limits{job.work(), std::numeric_limits<int64_t>::max(), problem.restartShare(index)};
    std::shared_ptr<const SlotOptions> untouched;
    for (int slot = from; slot < from + int(ways.size()) && !untouched; ++slot)
      if (!prices.isTouched(slot))
        untouched = ways[slot - from];
    for (int slot = from + int(ways.size()); slot <= last; ++slot) {
      bool isShared = !prices.isTouched(slot) && untouched;
      ways.push_back(isShared
                         ? untouched
                         : std::make_shared<const SlotOptions>(problem, index, prices.stateOf(slot),
                                                               limits, options.locality));
      if (!prices.isTouched(slot))
        untouched = ways.back();
    }
    double most = 0;
    for (size_t slot = 0; slot < ways.size(); ++slot)
      if (slot == 0 || ways[slot] != ways[slot - 1])
        most = std::max(most, ways[slot]->most());
    double slotsNeeded = std::ceil(job.work() / most * (1 - 1e-9));
    if (!(most > 0) || slotsNeeded > last + 1 - from)
      return;
    partsInSlot = partsOfSlot(slotsNeeded);
    part = most / partsInSlot;
    parts = static_cast<int>(std::ceil(job.work() / part * (1 - 1e-9)));
  }

  size_t cell(int slot, int done) const { return size_t(slot - from) * (parts + 1) + done; }

  /// least[slot][done]: least cost of `done` parts up to the end of `slot`; taken: of these, in it.
  void fill() {
    int slots = last + 1 - from;
    least.assign(size_t(slots) * (parts + 1), infinity);
    taken.assign(least.size(), 0);
    std::vector<double> costs;
    for (int slot = from; slot <= last; ++slot) {
      if (slot == from || ways[slot - from] != ways[slot - from - 1])
        costs = costsIn(slot);
      int64_t most = int64_t(partsInSlot) * (slot - from + 1);
      for (int done = 0; done <= std::min<int64_t>(parts, most); ++done)
        fillCell(slot, done, costs);
    }
  }

  std::vector<double> costsIn(int slot) const {
    std::vector<double> costs{0};
    const SlotOptions &ways = *this->ways[slot - from];
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
    for (int slot = from; slot <= last; ++slot) {
      double payoff =
          job.utility.at(slot - job.arrival) - options.costScale * least[cell(slot, parts)];
      if (payoff > highest) {
        highest = payoff;
        best = slot;
      }
    }
    return best;
  }

  /// The rows of the schedule that ends in `end`.
  Offer follow(int end, bool mayRound) {
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
      SlotPlan plan = mayRound ? roundedPlanIn(slot, needed) : ways[slot - from]->plan(needed);
      auto before = offer.slots.find(slot - 1);
      if (before != offer.slots.end() && problem.restartShare(index) < 1)
        keep(before->second, slot, needed, plan);
      left -= plan.samples;
      offer.cost += plan.cost;
      offer.slots[slot] = std::move(plan.rows);
    }
    if (!isDone(job, job.work() - left))
      return {};
    offer.utility = job.utility.at(offer.slots.rbegin()->first - job.arrival);
    return offer;
  }

  /// The rows of the slot before, which need no restart, where they train enough for no more.
  void keep(const Rows &before, int slot, double needed, SlotPlan &plan) const {
    std::vector<double> free = prices.freeIn(slot).vec();
    problem.take(index, before, free);
    SlotPlan same{before, problem.samplesOf(index, before),
                  costOfRows(problem, index, before, prices.stateOf(slot))};
    bool fits = llvm::all_of(free, [](double each) { return each >= 0; });
    if (fits && same.samples >= needed && (same.rows == plan.rows || same.cost <= plan.cost))
      plan = std::move(same);
  }

  /// The first slots only: models take longer than greedy spreads, which are rarely dearer.
  SlotPlan roundedPlanIn(int slot, double samples) {
    constexpr size_t most = 512; // sites of all models
    SlotPlan plan = ways[slot - from]->plan(samples);
    if (sitesOfModels >= most)
      return plan;
    sitesOfModels += std::min(problem.machines().sites().size(), mostSitesOfSpread);
    SpreadRounding rounding{*options.rounding, options.seed * 1'000'003 + uint64_t(index),
                            uint64_t(slot)};
    std::optional<SlotPlan> rounded =
        roundedSpread(problem, index, prices.stateOf(slot), samples, plan.cost, rounding, counts);
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
  int from, last;
  const Prices &prices;
  const OfferOptions &options;
  RoundingCounts &counts;
  WaysOfSlots &ways;
  double part = 0; // samples
  int parts = 0, partsInSlot = 0;
  size_t sitesOfModels = 0;
  std::vector<double> least;
  std::vector<int> taken;
};

/// Schedules with the same rows from start to end.
class SteadySearch {
public:
  SteadySearch(const Problem &problem, int index, int from, int last, const Prices &prices,
               const OfferOptions &options)
      : problem(problem), index(index), job(problem.job(index)), last(last), prices(prices),
        options(options) {
    best.costs.assign(std::max(0, last + 1 - from), infinity);
    for (int start = from; start <= last; start = from + farther(start - from))
      if (!startAt(start, from))
        break;
  }

  Offer take() { return std::move(best); }

private:
  /// Distances that are tried: all short ones, and fewer of the long ones.
  static int farther(int distance) { return std::max(distance + 1, distance * 5 / 4); }

  /// False where no later start can be worth more.
  bool startAt(int start, int from) {
    std::vector<double> free = prices.freeIn(start).vec();
    std::vector<double> cost(free.size());
    int known = start - 1; // slots up to here are in `free` and `cost`
    for (int slots = 1; start + slots - 1 <= last; slots = farther(slots)) {
      if (job.utility.at(start + slots - 1 - job.arrival) <= highest)
        return slots > 1;
      for (; known < start + slots - 1; ++known)
        for (size_t i = 0; i < free.size(); ++i) {
          free[i] = std::min(free[i], prices.freeIn(known + 1)[i]);
          cost[i] += prices.inSlot(known + 1)[i];
        }
      tryLength(start, slots, {free, cost, prices.growth()}, from);
    }
    return true;
  }

  void tryLength(int start, int slots, const SlotState &state, int from) {
    double samples = job.work() / (slots - 1 + problem.restartShare(index));
    SlotOptions ways(problem, index, state, {samples}, options.locality);
    if (ways.most() < samples * (1 - 1e-10))
      return;
    SlotPlan plan = ways.plan(samples);
    Offer offer;
    double left = job.work();
    int slot = start;
    for (; slot < start + slots && !isDone(job, job.work() - left); ++slot) {
      left -= plan.samples * (slot == start ? problem.restartShare(index) : 1);
      offer.cost += costOfRows(problem, index, plan.rows,
                               {prices.freeIn(slot), prices.inSlot(slot), prices.growth()});
    }
    if (!isDone(job, job.work() - left))
      return;
    offer.utility = job.utility.at(slot - 1 - job.arrival);
    double &least = best.costs[slot - 1 - from];
    least = std::min(least, offer.cost);
    double payoff = offer.utility - options.costScale * offer.cost;
    if (payoff <= highest)
      return;
    highest = payoff;
    for (int each = start; each < slot; ++each)
      offer.slots[each] = plan.rows;
    offer.costs = std::move(best.costs);
    best = std::move(offer);
  }

  const Problem &problem;
  int index;
  const Job &job;
  int last;
  const Prices &prices;
  const OfferOptions &options;
  Offer best;
  double highest = -infinity;
};

/// The least that any schedule of `job` costs, with nothing taken.
double leastCost(const Problem &problem, int index, const Prices &prices) {
  const Job &job = problem.job(index);
  double each = 0; // of a worker
  for (int r = 0; r < resources; ++r)
    each += (job.worker[r] + job.server[r] / job.workersPerServer) / unitOf[r];
  double fastest = 0;
  for (int kind = 0; kind < problem.machines().kinds(); ++kind)
    if (std::isfinite(problem.sampleTime(index, kind).value()))
      fastest = std::max(fastest, problem.slot() / problem.sampleTime(index, kind));
  return fastest > 0 ? prices.least() * each * job.work() / fastest : 0;
}

/// The best offer that ends by `last`. Its spreads are rounded if it is the final one.
template <typename IsFinal>
std::pair<Offer, bool> offerUpTo(const Problem &problem, int job, int from, int last,
                                 const Prices &prices, const OfferOptions &options,
                                 WaysOfSlots &ways, RoundingCounts &counts, IsFinal isFinal) {
  bool isPreemptible = problem.job(job).preemptible;
  Offer steady;
  if (!isPreemptible || problem.restartShare(job) < 1)
    steady = SteadySearch(problem, job, from, last, prices, options).take();
  auto payoff = [&](const Offer &offer) { return offer.utility - options.costScale * offer.cost; };
  auto better = [&](Offer best) {
    bool isBetter = !steady.slots.empty() && (best.slots.empty() || payoff(steady) > payoff(best));
    return isBetter || !isPreemptible ? steady : best;
  };
  Search search(problem, job, from, last, prices, options, ways, counts);
  Offer offer = better(isPreemptible ? search.run() : Offer());
  bool isDone = isFinal(offer);
  if (isDone && isPreemptible && options.rounding)
    offer = better(search.rounded());
  return {std::move(offer), isDone};
}
} // namespace

int firstWindow(const Problem &problem) {
  constexpr int least = 16, most = 48;
  constexpr double looks = 2e4; // at a site in a slot
  return std::clamp(int(looks / double(problem.machines().sites().size())), least, most);
}

Offer bestOffer(const Problem &problem, int job, int from, const Prices &prices,
                const OfferOptions &options, RoundingCounts &counts) {
  constexpr double negligible = 0.01; // of the utility
  int last = std::min(problem.lastSlot(job), options.last);
  int arrival = problem.job(job).arrival;
  const Utility &utility = problem.job(job).utility;
  double least = leastCost(problem, job, prices);
  WaysOfSlots ways;
  for (int64_t window = options.wholeHorizon ? last + 1 - from : firstWindow(problem); from <= last;
       window *= 2) {
    int end = int(std::min<int64_t>(last, from + window - 1));
    double looks = double(end + 1 - from) * double(problem.machines().sites().size() + 4);
    auto isFinal = [&](const Offer &offer) {
      double payoff = offer.utility - options.costScale * offer.cost;
      double reached = offer.slots.empty() ? 0 : std::max(0.0, payoff);
      double later = end < last ? utility.at(end + 1 - arrival) : 0;
      bool isEnough = looks > options.looks && !offer.slots.empty();
      return end == last || isEnough || later - least <= reached + negligible * later;
    };
    auto [offer, isDone] =
        offerUpTo(problem, job, from, end, prices, options, ways, counts, isFinal);
    if (!isDone && looks > options.mostLooks)
      offer.slots.clear();
    if (isDone || looks > options.mostLooks)
      return std::move(offer);
  }
  return {};
}

} // namespace heterplan::jobs
