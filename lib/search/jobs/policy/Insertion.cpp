#include "search/jobs/policy/Insertion.h"

#include "search/jobs/policy/PrimalDual.h"
#include "search/jobs/policy/SlotPolicy.h"
#include "support/Random.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heterplan::jobs {

namespace {
constexpr double negligible = 1e-3; // factor on costs that leaves them to break ties only
} // namespace

double shareSlots(const Problem &problem, int index) {
  const Job &job = problem.job(index);
  std::array<double, resources> totals = problem.machines().totals();
  double fastest = 0;
  for (int kind = 0; kind < problem.machines().kinds(); ++kind)
    if (std::isfinite(problem.sampleTime(index, kind).value()))
      fastest = std::max(fastest, problem.slot() / problem.sampleTime(index, kind));
  double share = 0;
  for (int r = 0; r < resources; ++r)
    if (totals[r] > 0)
      share = std::max(share, (job.worker[r] + job.server[r] / job.workersPerServer) / totals[r]);
  return fastest > 0 ? share * std::max(1.0, job.work() / fastest) : 0;
}

Insertion::Insertion(const Problem &problem, std::vector<std::vector<double>> costs)
    : problem(problem), prices(this->problem, std::move(costs)), plans(problem.size()),
      best(problem.size()), areas(problem.size()), followers(problem.size()) {
  std::vector<double> weights = shareWeights(problem);
  for (int index = 0; index < problem.size(); ++index) {
    for (int before : problem.before(index))
      followers[before].push_back(index);
    for (int choice = problem.choices(index); choice-- > 0;) {
      this->problem.setChoice(index, choice);
      measure(index, weights);
    }
  }
}

/// The worth of a job at its earliest end, and its share of the cluster, with its present choice.
void Insertion::measure(int index, const std::vector<double> &weights) {
  const Job &job = problem.job(index);
  double most = mostSamples(problem, index, weights);
  if (!(most > 0) || problem.release(index) >= problem.slots())
    return;
  double slots = std::ceil(job.work() / most * (1 - 1e-9));
  double worth = job.utility.at(problem.release(index) + slots - 1 - job.arrival);
  best[index] = std::max(best[index], worth);
  double area = shareSlots(problem, index);
  areas[index] = areas[index] > 0 ? std::min(areas[index], area) : area;
}

void Insertion::put(int job, Placed placed) {
  problem.setChoice(job, placed.choice);
  for (const auto &[slot, rows] : placed.slots)
    prices.take(job, slot, rows);
  plans[job].slots = std::move(placed.slots);
  plans[job].choice = placed.choice;
  total += utilityOf(problem, plans, job);
}

Insertion::Placed Insertion::takeOut(int job) {
  total -= utilityOf(problem, plans, job);
  for (const auto &[slot, rows] : plans[job].slots)
    prices.giveBack(job, slot, rows);
  return {std::exchange(plans[job].slots, {}), plans[job].choice};
}

void Insertion::set(const Schedule &schedule) {
  for (int job = 0; job < problem.size(); ++job)
    if (plans[job].isAdmitted())
      takeOut(job);
  for (int job = 0; job < problem.size(); ++job)
    if (schedule[job].isAdmitted())
      put(job, {schedule[job].slots, schedule[job].choice});
}

double Insertion::density(int job) const { return areas[job] > 0 ? best[job] / areas[job] : 0; }

double Insertion::regret(int job) const { return best[job] - utilityOf(problem, plans, job); }

/// Whether it can be taken out: no admitted job waits for it.
bool Insertion::mayMove(int job) const {
  return llvm::none_of(followers[job], [&](int other) { return plans[other].isAdmitted(); });
}

bool Insertion::insert(int job, double scale) {
  std::optional<int> start = startAfter(problem, job, plans);
  if (!start || *start > problem.lastSlot(job) || best[job] <= 0)
    return false;
  OfferOptions options;
  options.costScale = scale;
  RoundingCounts counts;
  Offer offer = chooseOffer(problem, job, *start, prices, options, counts);
  spent += double(std::max<size_t>(1, offer.costs.size())) * problem.choices(job) *
           double(problem.machines().sites().size() + 4);
  if (offer.slots.empty() || offer.utility <= 0 || (scale >= 1 && offer.payoff() < 0))
    return false;
  put(job, {std::move(offer.slots), problem.job(job).choice});
  return true;
}

void Insertion::insertAll(double scale) {
  std::vector<int> order(problem.arrivals());
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return density(a) > density(b); });
  // Jobs that wait for others are inserted once those are there.
  bool isNew = true;
  for (int pass = 0; isNew && pass < 4; ++pass) {
    isNew = false;
    for (int job : order)
      if (!plans[job].isAdmitted() && (pass == 0 || !problem.before(job).empty()))
        isNew |= insert(job, scale);
  }
}

void Insertion::advanceAll() {
  for (int job : problem.arrivals()) {
    if (!plans[job].isAdmitted() || !mayMove(job) || regret(job) <= 1e-9 * best[job])
      continue;
    double before = total;
    Placed placed = takeOut(job);
    if (insert(job, negligible) && total > before * (1 + 1e-12))
      continue;
    if (plans[job].isAdmitted())
      takeOut(job);
    put(job, std::move(placed));
  }
}

void Insertion::endEarlier() {
  for (int job : problem.arrivals()) {
    if (!plans[job].isAdmitted() || !mayMove(job))
      continue;
    double before = total;
    int end = plans[job].completion();
    Placed placed = takeOut(job);
    bool isInserted = insert(job, 0); // the earliest of the ends that are worth most
    if (isInserted && total >= before * (1 - 1e-12) && plans[job].completion() < end)
      continue;
    if (isInserted)
      takeOut(job);
    put(job, std::move(placed));
    total = before;
  }
}

/// Some jobs that hold what `job` could use before its end.
std::vector<int> Insertion::neighbours(int job, uint64_t &random) const {
  constexpr size_t most = 4;
  int from = problem.release(job), last = problem.lastSlot(job);
  if (plans[job].isAdmitted())
    last = plans[job].completion();
  std::vector<int> found;
  for (int other = 0; other < problem.size(); ++other)
    if (other != job && plans[other].isAdmitted() && mayMove(other) &&
        plans[other].completion() >= from && plans[other].start() <= last)
      found.push_back(other);
  size_t wanted = 1 + nextRandom(random) % most;
  for (size_t i = 0; i < std::min(wanted, found.size()); ++i)
    std::swap(found[i], found[i + nextRandom(random) % (found.size() - i)]);
  found.resize(std::min(wanted, found.size()));
  return found;
}

/// The jobs that are worth more for what they take come first, or the order is random.
void Insertion::reorder(std::vector<int> &jobs, uint64_t &random) const {
  if (nextRandom(random) % 2)
    std::stable_sort(jobs.begin(), jobs.end(),
                     [&](int a, int b) { return density(a) > density(b); });
  else
    for (size_t i = 1; i < jobs.size(); ++i)
      std::swap(jobs[i], jobs[nextRandom(random) % (i + 1)]);
}

/// Takes `job` and some others out and inserts them again, `job` first. The result is kept unless
/// it loses more than `loss`.
void Insertion::exchange(int job, double loss, uint64_t &random) {
  constexpr double scales[] = {1, 1, 0.3, 0.1, negligible, negligible};
  if (plans[job].isAdmitted() && !mayMove(job))
    return;
  std::vector<int> out = neighbours(job, random);
  double before = total;
  std::vector<std::pair<int, Placed>> old;
  old.emplace_back(job, takeOut(job));
  for (int other : out)
    old.emplace_back(other, takeOut(other));
  reorder(out, random);
  double scale = scales[nextRandom(random) % std::size(scales)];
  insert(job, scale);
  for (int other : out)
    insert(other, scale);
  for (auto &[other, placed] : old) // what was declined at these costs
    if (!plans[other].isAdmitted())
      insert(other, negligible);
  if (total >= before - loss)
    return;
  for (auto &[other, placed] : old)
    if (plans[other].isAdmitted())
      takeOut(other);
  for (auto &[other, placed] : old)
    put(other, std::move(placed));
  total = before;
}

void Insertion::improve(double limit, double enough, uint64_t seed) {
  constexpr double loss = 0.15; // of the mean utility of a job, at first
  uint64_t random = seed;
  double started = spent, highest = total;
  Schedule found = plans;
  auto someJob = [&] { return int(nextRandom(random) % uint64_t(problem.size())); };
  while (spent < limit && highest < enough) {
    double left = (limit - spent) / (limit - started);
    auto admitted =
        double(llvm::count_if(plans, [](const JobPlan &plan) { return plan.isAdmitted(); }));
    int one = someJob(), other = someJob();
    int job = regret(one) > regret(other) ? one : other;
    double draw = double(nextRandom(random) >> 11) * 0x1p-53;
    if (best[job] > 0)
      exchange(job, left * left * draw * loss * total / std::max(admitted, 1.0), random);
    spent += double(problem.size()) * 0.1 + 10;
    if (total > highest * (1 + 1e-12)) {
      highest = total;
      found = plans;
    }
  }
  if (total < highest)
    set(found);
}

} // namespace heterplan::jobs
