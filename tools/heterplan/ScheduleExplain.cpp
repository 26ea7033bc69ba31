#include "ScheduleExplain.h"

#include "Table.h"

#include "support/Text.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

using namespace jobs;

namespace {
constexpr size_t mostLines = 20;

/// Evenly spaced indices below `size`, at most mostLines of them, the last one and `marked` among
/// them.
std::vector<size_t> sampled(size_t size, size_t marked) {
  std::vector<size_t> indices;
  size_t step = std::max<size_t>(1, (size + mostLines - 1) / mostLines);
  for (size_t i = 0; i < size; ++i)
    if (i % step == 0 || i == marked || i + 1 == size)
      indices.push_back(i);
  return indices;
}

std::string finite(double value) { return std::isfinite(value) ? plain(value) : "-"; }

std::vector<Resource> demanded(const Job &job) {
  std::vector<Resource> result;
  for (Resource resource : {Gpu, Cpu, Memory})
    if (job.worker[resource] + job.server[resource] > 0)
      result.push_back(resource);
  return result;
}

const char *unitName(Resource resource) {
  constexpr const char *names[] = {"core", "GiB", "GPU"};
  return names[resource];
}

/// For each slot in which the job could end: what it would be worth, and what it would cost.
void printEnds(raw_ostream &os, const Job &job, const Explanation &explanation) {
  const Offer &offer = explanation.offer;
  if (offer.costs.empty())
    return;
  size_t chosen =
      offer.slots.empty() ? offer.costs.size() : size_t(offer.slots.rbegin()->first - job.arrival);
  os << "\nIf it ends in a slot:\n";
  Table table({">slot", ">utility", ">least cost", ">pay-off", ""});
  for (size_t i : sampled(offer.costs.size(), chosen)) {
    double utility = job.utility.at(int(i)), cost = offer.costs[i];
    table.row({std::to_string(job.arrival + int(i)), plain(utility), finite(cost),
               finite(utility - cost), i == chosen ? "highest pay-off" : ""});
  }
  table.print(os);
}

/// Prices and shares of what the job needs, by slot.
void printMarkets(raw_ostream &os, const Job &job, const Explanation &explanation) {
  if (explanation.markets.empty())
    return;
  std::vector<std::string> headings{">slot"};
  for (Resource resource : demanded(job)) {
    headings.push_back(std::string(">a ") + unitName(resource));
    headings.push_back(std::string(">") + nameOf(resource) + " taken");
  }
  os << "\nPrices it met (on the node where they are least), and what others had taken:\n";
  Table table(headings);
  for (size_t i : sampled(explanation.markets.size(), 0)) {
    std::vector<std::string> cells{std::to_string(job.arrival + int(i))};
    for (Resource resource : demanded(job)) {
      cells.push_back(finite(explanation.markets[i].price[resource]));
      cells.push_back(percent(explanation.markets[i].taken[resource]));
    }
    table.row(cells);
  }
  table.print(os);
}

void printHolders(raw_ostream &os, const Problem &problem, const Job &job,
                  const Explanation &explanation) {
  if (explanation.holders.empty())
    return;
  std::vector<std::string> headings{"job"};
  for (Resource resource : demanded(job))
    headings.push_back(std::string(">") + nameOf(resource));
  os << "\nWho holds most of it from its arrival to "
     << (explanation.offer.slots.empty() ? "the horizon:\n" : "that end:\n");
  Table table(headings);
  for (size_t i = 0; i < std::min(explanation.holders.size(), mostLines / 2); ++i) {
    const Explanation::Holder &holder = explanation.holders[i];
    std::vector<std::string> cells{shortened(problem.job(holder.job).name)};
    for (Resource resource : demanded(job))
      cells.push_back(percent(holder.share[resource]));
    table.row(cells);
  }
  table.print(os);
}
} // namespace

void printExplanation(raw_ostream &os, const Problem &problem, const Explanation &explanation,
                      const JobPlan &decision) {
  const Job &job = problem.job(explanation.job);
  const Offer &offer = explanation.offer;
  os << shortened(job.name) << " arrives in slot " << job.arrival << " and is "
     << (decision.isAdmitted() ? "admitted" : "declined") << ": " << decision.reason << '\n';
  if (!offer.slots.empty()) {
    os << "best schedule  slots " << offer.slots.begin()->first << " to "
       << offer.slots.rbegin()->first << ", utility " << plain(offer.utility) << ", cost "
       << plain(offer.cost) << " (";
    bool isFirst = true;
    for (Resource resource : demanded(job)) {
      os << (isFirst ? "" : ", ") << nameOf(resource) << ' ' << plain(explanation.paid[resource]);
      isFirst = false;
    }
    os << ")\n";
  }
  if (std::isfinite(explanation.leastValue))
    os << "value          " << plain(job.utility.value) << "; it is admitted above about "
       << plain(explanation.leastValue) << '\n';
  os << "prices         rise from " << plain(explanation.limits.least) << " to";
  for (Resource resource : demanded(job))
    os << ' ' << plain(explanation.limits.most[resource]) << " a " << unitName(resource);
  os << '\n';
  printEnds(os, job, explanation);
  printMarkets(os, job, explanation);
  printHolders(os, problem, job, explanation);
}

} // namespace heterplan
