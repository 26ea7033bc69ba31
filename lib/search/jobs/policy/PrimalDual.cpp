#include "search/jobs/policy/PrimalDual.h"

#include "search/jobs/policy/Explanation.h"
#include "search/jobs/policy/Policies.h"
#include "search/jobs/policy/Replanning.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace heterplan::jobs {

namespace {
/// Four significant digits, the same everywhere.
std::string shortNumber(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.4g", value);
  return text;
}
} // namespace

std::string reasonOf(const Problem &problem, int job, int from, const Offer &offer) {
  if (from >= problem.slots())
    return "arrives after the horizon";
  if (offer.slots.empty() && problem.lastSlot(job) + 1 < problem.slots())
    return "cannot end before its deadline in what is free";
  if (offer.slots.empty())
    return "cannot end before the horizon in what is free";
  const char *relation = offer.payoff() > 0 ? " exceeds" : " does not exceed";
  return "utility " + shortNumber(offer.utility) + relation + " the cost " +
         shortNumber(offer.cost) + " of its best schedule";
}

std::optional<int> startAfter(const Problem &problem, int job, const Schedule &schedule) {
  int start = problem.release(job);
  for (int each : problem.before(job)) {
    if (!schedule[each].isAdmitted())
      return std::nullopt;
    start = std::max(start, schedule[each].completion() + 1);
  }
  return start;
}

Offer chooseOffer(Problem &problem, int job, int from, const Prices &prices,
                  const OfferOptions &options, RoundingCounts &counts) {
  Offer best;
  int chosen = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (int choice = 0; choice < problem.choices(job); ++choice) {
    problem.setChoice(job, choice);
    Offer offer = bestOffer(problem, job, from, prices, options, counts);
    double payoff = offer.slots.empty() ? -std::numeric_limits<double>::infinity()
                                        : offer.utility - options.costScale * offer.cost;
    if (choice > 0 && payoff <= highest)
      continue;
    best = std::move(offer);
    chosen = choice;
    highest = payoff;
  }
  problem.setChoice(job, chosen);
  return best;
}

JobPlan decide(Problem &problem, int job, int from, Prices &prices, const OfferOptions &options,
               RoundingCounts &counts) {
  Offer offer;
  if (from < problem.slots())
    offer = chooseOffer(problem, job, from, prices, options, counts);
  JobPlan plan;
  plan.choice = problem.job(job).choice;
  plan.reason = reasonOf(problem, job, from, offer);
  if (offer.slots.empty() || offer.payoff() <= 0)
    return plan;
  plan.slots = std::move(offer.slots);
  for (const auto &[slot, rows] : plan.slots)
    prices.take(job, slot, rows);
  return plan;
}

PolicyResult runPrimalDual(const Problem &given, const PolicyOptions &options,
                           const OfferOptions &offers) {
  Problem problem = given; // with the choices that are made
  std::vector<int> all(problem.size());
  std::iota(all.begin(), all.end(), 0);
  Prices prices(problem, options.loadPrices ? loadPriceLimits(problem, all, options.priceScale)
                                            : priceLimits(problem, all, options.priceScale));
  PolicyResult result;
  result.schedule.resize(problem.size());
  int decided = 0;
  for (int job : problem.arrivals()) {
    std::optional<int> start = startAfter(problem, job, result.schedule);
    if (job == options.explain) {
      RoundingCounts unused; // the explanation is about the workers that are chosen
      if (start && *start < problem.slots())
        chooseOffer(problem, job, *start, prices, offers, unused);
      result.explanation =
          std::make_shared<Explanation>(explain(problem, job, prices, offers, result.schedule));
    }
    Seconds started = options.clock ? options.clock() : Seconds();
    if (start)
      result.schedule[job] = decide(problem, job, *start, prices, offers, result.rounding);
    else
      result.schedule[job].reason = "waits for a job that is declined";
    if (options.clock)
      result.decisions.push_back(options.clock() - started);
    if (options.progress)
      options.progress(double(++decided) / problem.size());
  }
  return result;
}

namespace {
PolicyResult runReplanned(const Problem &given, const PolicyOptions &options,
                          const OfferOptions &offers) {
  Problem problem = given; // with the choices that are made
  // Jobs that are in the way can be planned anew, and prices of near slots are discounted.
  constexpr LoadShares shares{0.6, 0.003};
  constexpr double ofPatience = 0.75;
  std::vector<int> all(problem.size());
  std::iota(all.begin(), all.end(), 0);
  PriceLimits limits = options.loadPrices
                           ? loadPriceLimits(problem, all, options.priceScale, shares)
                           : priceLimits(problem, all, options.priceScale);
  int discounted = options.loadPrices ? int(std::ceil(ofPatience * patienceOf(problem, all))) : 0;
  Replanner replanner(problem, Prices(problem, limits), offers, options.replan, discounted);
  PolicyResult result;
  int decided = 0;
  for (int job : problem.arrivals()) {
    Seconds started = options.clock ? options.clock() : Seconds();
    replanner.decide(job, result.rounding);
    if (options.clock)
      result.decisions.push_back(options.clock() - started);
    if (options.progress)
      options.progress(double(++decided) / problem.size());
  }
  result.schedule = replanner.schedule();
  return result;
}
} // namespace

PolicyResult PdOrs::run(const Problem &problem, const PolicyOptions &options) const {
  OfferOptions offers{Locality::Both, options.rounding, options.seed};
  // An explanation is about the prices that a job met, which re-planning changes.
  bool isFixed = options.replan == Replan::None || options.explain >= 0;
  return isFixed ? runPrimalDual(problem, options, offers) : runReplanned(problem, options, offers);
}

PolicyResult Oasis::run(const Problem &problem, const PolicyOptions &given) const {
  PolicyOptions options = given;
  options.loadPrices = false;
  return runPrimalDual(problem, options, {Locality::SpreadOnly, std::nullopt, options.seed});
}

} // namespace heterplan::jobs
