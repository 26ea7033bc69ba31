#include "search/jobs/policy/Explanation.h"

#include "support/JsonWriter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

Explanation::Market marketIn(const Machines &machines, const Prices &prices, int slot) {
  Explanation::Market market;
  market.price.fill(infinity);
  std::array<double, resources> all = machines.totals(), free{};
  for (size_t i = 0; i < machines.capacity().size(); ++i) {
    Resource resource = machines.resourceOf(int(i));
    market.price[resource] = std::min(market.price[resource], prices.inSlot(slot)[i]);
    free[resource] += prices.freeIn(slot)[i];
  }
  for (int r = 0; r < resources; ++r)
    market.taken[r] = all[r] > 0 ? 1 - free[r] / all[r] : 0;
  return market;
}

/// Cost of `rows` in `slot`, by resource.
void addPaid(const Problem &problem, int job, const Prices &prices, int slot, const Rows &rows,
             std::array<double, resources> &paid) {
  const Machines &machines = problem.machines();
  std::vector<double> taken(problem.capacity().size());
  problem.take(job, rows, taken, -1);
  for (size_t i = 0; i < machines.capacity().size(); ++i)
    paid[machines.resourceOf(int(i))] += costOfAmount(taken[i], machines.resourceOf(int(i)),
                                                      prices.inSlot(slot)[i], prices.growth()[i]);
}

/// The part that the jobs of `before` hold of each resource from slot `from` to slot `end`.
std::vector<Explanation::Holder> holdersOf(const Problem &problem, const Schedule &before, int from,
                                           int end) {
  std::array<double, resources> all = problem.machines().totals();
  std::vector<Explanation::Holder> holders;
  for (int job = 0; job < int(before.size()); ++job) {
    Explanation::Holder holder{job, {}};
    for (const auto &[slot, rows] : before[job].slots)
      if (slot >= from && slot <= end)
        for (const Row &row : rows)
          for (int r = 0; r < resources; ++r)
            holder.share[r] += double(row.workers) * problem.job(job).worker[r] +
                               double(row.servers) * problem.job(job).server[r];
    for (int r = 0; r < resources; ++r)
      holder.share[r] = all[r] > 0 ? holder.share[r] / (all[r] * (end - from + 1)) : 0;
    if (holder.share != std::array<double, resources>{})
      holders.push_back(holder);
  }
  return holders;
}

/// The resource of which most is taken, among those that `job` demands.
int scarcest(const Job &job, const std::vector<Explanation::Market> &markets) {
  int most = 0;
  double highest = -1;
  for (int r = 0; r < resources; ++r) {
    double sum = 0;
    for (const Explanation::Market &market : markets)
      sum += market.taken[r];
    if (job.worker[r] + job.server[r] > 0 && sum > highest) {
      highest = sum;
      most = r;
    }
  }
  return most;
}

double leastValueOf(const Job &job, int from, const Offer &offer) {
  double least = infinity;
  for (size_t i = 0; i < offer.costs.size(); ++i) {
    double utility = job.utility.at(from + int(i) - job.arrival);
    if (utility > 0)
      least = std::min(least, job.utility.value * (offer.costs[i] / utility));
  }
  return least;
}
} // namespace

Explanation explain(const Problem &problem, int index, const Prices &prices,
                    const OfferOptions &given, const Schedule &before) {
  OfferOptions options = given;
  options.wholeHorizon = true;
  const Job &job = problem.job(index);
  Explanation result;
  result.job = index;
  result.limits = prices.limits();
  result.paid.fill(0);
  for (int slot = job.arrival; slot < problem.slots(); ++slot)
    result.markets.push_back(marketIn(problem.machines(), prices, slot));
  RoundingCounts counts;
  if (job.arrival < problem.slots())
    result.offer = bestOffer(problem, index, job.arrival, prices, options, counts);
  for (const auto &[slot, rows] : result.offer.slots)
    addPaid(problem, index, prices, slot, rows, result.paid);
  int end = result.offer.slots.empty() ? problem.slots() - 1 : result.offer.slots.rbegin()->first;
  result.holders = holdersOf(problem, before, job.arrival, end);
  int resource = scarcest(job, result.markets);
  std::stable_sort(result.holders.begin(), result.holders.end(), [&](const auto &a, const auto &b) {
    return a.share[resource] > b.share[resource];
  });
  result.leastValue = leastValueOf(job, job.arrival, result.offer);
  return result;
}

std::string toJson(const Problem &problem, const Explanation &explanation,
                   const JobPlan &decision) {
  const Job &job = problem.job(explanation.job);
  std::string text;
  llvm::raw_string_ostream os(text);
  JsonWriter json(os);
  auto byResource = [&](const char *key, const std::array<double, resources> &values) {
    json.attributeObject(key, [&] {
      for (int r = 0; r < resources; ++r)
        json.attribute(nameOf(Resource(r)), values[r]);
    });
  };
  json.object([&] {
    json.attribute("job", job.name);
    json.attribute("admitted", decision.isAdmitted());
    json.attribute("reason", decision.reason);
    json.attribute("leastPrice", explanation.limits.least);
    byResource("highestPrices", explanation.limits.most);
    json.attribute("utility", explanation.offer.utility);
    json.attribute("cost", explanation.offer.cost);
    byResource("costs", explanation.paid);
    json.attribute("leastValue", explanation.leastValue);
    json.attributeArray("ends", [&] {
      for (size_t i = 0; i < explanation.offer.costs.size(); ++i)
        json.object([&] {
          json.attribute("slot", job.arrival + int(i));
          json.attribute("utility", job.utility.at(int(i)));
          json.attribute("leastCost", explanation.offer.costs[i]);
        });
    });
    json.attributeArray("slots", [&] {
      for (size_t i = 0; i < explanation.markets.size(); ++i)
        json.object([&] {
          json.attribute("slot", job.arrival + int(i));
          byResource("leastPrices", explanation.markets[i].price);
          byResource("taken", explanation.markets[i].taken);
        });
    });
    json.attributeArray("holders", [&] {
      for (const Explanation::Holder &holder : explanation.holders)
        json.object([&] {
          json.attribute("job", problem.job(holder.job).name);
          byResource("shares", holder.share);
        });
    });
  });
  return os.str();
}

} // namespace heterplan::jobs
