#include "search/jobs/policy/Prices.h"

#include "search/jobs/policy/SlotPolicy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace heterplan::jobs {

namespace {
/// Units·slots that `job` takes of each resource on its fastest device, if nothing delays it; none
/// where it cannot run.
std::array<double, resources> unitSlots(const Problem &problem, int index) {
  const Job &job = problem.job(index);
  double fastest = 0;
  for (const Site &site : problem.machines().sites())
    if (std::isfinite(problem.sampleTime(index, site.kind).value()))
      fastest =
          std::max(fastest, problem.samplesOfWorker(index, site.kind,
                                                    problem.machines().nodes()[site.node].link));
  std::array<double, resources> result{};
  if (fastest <= 0)
    return result;
  double workerSlots = std::max(1.0, job.work() / fastest); // a worker is there for a whole slot
  for (int r = 0; r < resources; ++r)
    result[r] = workerSlots * (job.worker[r] + job.server[r] / job.workersPerServer) / unitOf[r];
  return result;
}

/// Delay if it had the cluster to itself; -1 if it cannot end before the horizon.
int leastDelay(const Problem &problem, int index, const std::vector<double> &weights) {
  double most = mostSamples(problem, index, weights);
  int slots = problem.slots() - problem.job(index).arrival;
  double needed = std::ceil(problem.job(index).work() / most * (1 - 1e-9));
  return most > 0 && needed <= slots ? int(needed) - 1 : -1;
}
} // namespace

namespace {
/// A job that has the cluster to itself.
struct Request {
  double utility = 0;
  std::array<double, resources> taken{}; // units·slots
  double perUnit() const { return utility / (taken[0] + taken[1] + taken[2]); }
};

/// The request of `job` with its present workers; none if it cannot end before the horizon or is
/// worth nothing then.
std::optional<Request> requestOf(const Problem &problem, int job,
                                 const std::vector<double> &weights) {
  int delay = leastDelay(problem, job, weights);
  Request request{delay < 0 ? 0 : problem.job(job).utility.at(delay), unitSlots(problem, job)};
  bool counts = request.taken[0] + request.taken[1] + request.taken[2] > 0 && request.utility > 0;
  return counts ? std::optional(request) : std::nullopt;
}

/// The requests of the jobs, each with the workers of most utility per unit.
std::vector<Request> requestsOf(const Problem &problem, llvm::ArrayRef<int> jobs) {
  std::vector<double> weights = shareWeights(problem);
  std::vector<Request> requests;
  for (int index : jobs) {
    std::optional<Request> best = requestOf(problem, index, weights);
    std::optional<Problem> other; // with another choice
    if (problem.choices(index) > 1)
      other = problem;
    for (int choice = 0; other && choice < problem.choices(index); ++choice) {
      other->setChoice(index, choice);
      std::optional<Request> own = requestOf(*other, index, weights);
      if (own && (!best || own->perUnit() > best->perUnit()))
        best = own;
    }
    if (best)
      requests.push_back(*best);
  }
  return requests;
}
} // namespace

PriceLimits loadPriceLimits(const Problem &problem, llvm::ArrayRef<int> jobs, double scale,
                            const LoadShares &shares) {
  constexpr double counted = 0.5;
  PriceLimits limits = priceLimits(problem, jobs, scale);
  std::vector<Request> requests = requestsOf(problem, jobs);
  std::stable_sort(requests.begin(), requests.end(),
                   [](const Request &a, const Request &b) { return a.perUnit() > b.perUnit(); });
  std::array<double, resources> all = problem.machines().totals();
  double sum = 0;
  for (const Request &request : requests) {
    double share = 0;
    for (int r = 0; r < resources; ++r)
      if (all[r] > 0)
        share = std::max(share, request.taken[r] * unitOf[r] / (all[r] * problem.slots()));
    sum += share;
    if (sum <= counted)
      continue;
    limits.least = std::max(limits.least, shares.ofMarginal * request.perUnit());
    break;
  }
  for (double &most : limits.most)
    most = std::max(shares.ofMost * most, limits.least);
  return limits;
}

PriceLimits priceLimits(const Problem &problem, llvm::ArrayRef<int> jobs, double scale) {
  PriceLimits limits;
  limits.least = std::numeric_limits<double>::infinity();
  for (const Request &request : requestsOf(problem, jobs)) {
    limits.least = std::min(limits.least, scale * request.perUnit());
    for (int r = 0; r < resources; ++r)
      if (request.taken[r] > 0)
        limits.most[r] = std::max(limits.most[r], request.utility / request.taken[r]);
  }
  // Smaller numbers are no longer exact; prices need their ratio only.
  limits.least = std::isfinite(limits.least) ? std::max(limits.least, 1e-200) : 1;
  for (double &most : limits.most)
    most = std::max(most, limits.least);
  return limits;
}

Prices::Prices(const Problem &problem, PriceLimits limits)
    : problem(problem), ends(limits), free(problem.slots(), problem.capacity()),
      prices(problem.slots(), std::vector<double>(problem.capacity().size())),
      touched(problem.slots()), alike(problem.slots()) {
  const Machines &machines = problem.machines();
  for (size_t resource = 0; resource < machines.capacity().size(); ++resource) {
    double capacity = machines.capacity()[resource];
    double most = ends.most[machines.resourceOf(int(resource))];
    rises.push_back(capacity > 0 ? std::log(most / ends.least) / capacity : 0);
    update(0, int(resource));
  }
  rises.resize(problem.capacity().size()); // quotas have no prices
  for (int slot = 1; slot < problem.slots(); ++slot)
    prices[slot] = prices[0];
}

Prices::Prices(const Problem &problem, std::vector<std::vector<double>> costs)
    : problem(problem), free(problem.slots(), problem.capacity()), prices(std::move(costs)),
      rises(problem.capacity().size()), touched(problem.slots(), true), isFixed(true),
      alike(problem.slots()) {
  ends.least = 0;
  for (size_t resource = 0; resource < rises.size(); ++resource)
    if (problem.capacity()[resource] <= 0)
      for (std::vector<double> &slot : prices)
        slot[resource] = std::numeric_limits<double>::infinity();
}

int patienceOf(const Problem &problem, llvm::ArrayRef<int> jobs) {
  std::vector<int> delays;
  for (int index : jobs) {
    const Utility &utility = problem.job(index).utility;
    // More than half at `low`; at most half, or the horizon, at `high`.
    int low = 0, high = problem.slots();
    while (high - low > 1) {
      int middle = low + (high - low) / 2;
      (utility.at(middle) > utility.at(0) / 2 ? low : high) = middle;
    }
    delays.push_back(high);
  }
  if (delays.empty())
    return 1;
  auto middle = delays.begin() + std::ptrdiff_t(delays.size() / 2);
  std::nth_element(delays.begin(), middle, delays.end());
  return *middle;
}

void Prices::discountFrom(int now, int slots) {
  constexpr double ofNow = 0.05;
  discounts.resize(free.size(), 1);
  lowest = ofNow;
  for (int slot = now; slot < std::min<int64_t>(int64_t(now) + slots, int64_t(free.size()));
       ++slot) {
    discounts[slot] = std::min(1.0, ofNow + double(slot - now) / slots);
    touched[slot] = true;
    alike[slot].reset();
    for (int resource = 0; resource < problem.firstQuota(); ++resource)
      update(slot, resource);
  }
}

SlotState Prices::stateOf(int slot) const {
  SlotState state{free[slot], prices[slot], rises};
  if (!alike[slot])
    alike[slot].emplace(problem, state);
  state.alike = &*alike[slot];
  return state;
}

void Prices::take(int job, int slot, const Rows &rows) {
  problem.take(job, rows, free[slot]);
  changed(slot, rows);
}

void Prices::giveBack(int job, int slot, const Rows &rows) {
  problem.take(job, rows, free[slot], -1);
  changed(slot, rows);
}

void Prices::changed(int slot, const Rows &rows) {
  touched[slot] = true;
  alike[slot].reset();
  if (isFixed)
    return;
  for (const Row &row : rows)
    for (int resource : problem.machines().sites()[row.site].resource)
      update(slot, resource);
}

void Prices::update(int slot, int resource) {
  double capacity = problem.machines().capacity()[resource];
  double &price = prices[slot][resource];
  if (capacity <= 0)
    price = std::numeric_limits<double>::infinity();
  else
    price = (discounts.empty() ? 1 : discounts[slot]) * ends.least *
            std::exp(rises[resource] * (capacity - free[slot][resource]));
}

} // namespace heterplan::jobs
