#include "search/jobs/policy/Replanning.h"

#include "search/jobs/policy/PrimalDual.h"
#include "support/Random.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr int never = std::numeric_limits<int>::max();
constexpr double mostWork = 1e5; // looks at a site in a slot, of one decision
constexpr double looksOfRow = 5; // that take as long as taking a row or giving it back
} // namespace

Replanner::Replanner(Problem &problem, Prices prices, const OfferOptions &offers, Replan replan,
                     int discounted)
    : problem(problem), rest(problem), prices(std::move(prices)), offers(offers), replan(replan),
      plans(problem.size()), ends(problem.size(), -1), followers(problem.size()),
      discounted(discounted), random(offers.seed) {
  for (int job = 0; job < problem.size(); ++job)
    for (int before : problem.before(job))
      followers[before].push_back(job);
}

void Replanner::put(int job, const Slots &slots) {
  JobPlan &plan = plans[job];
  plan.slots.insert(slots.begin(), slots.end());
  if (problem.restartShare(job) < 1) // a slot that continues the one before trains more
    trim(problem, job, plan);
  for (auto slot = plan.slots.lower_bound(now); slot != plan.slots.end(); ++slot) {
    spent += looksOfRow * double(slot->second.size());
    cost += costOfRows(problem, job, slot->second,
                       {prices.freeIn(slot->first), prices.inSlot(slot->first), prices.growth()});
    prices.take(job, slot->first, slot->second);
  }
  utility += utilityOf(problem, plans, job);
}

/// Takes away the rows that the job has from now on, and returns them.
Replanner::Slots Replanner::takeOut(int job) {
  utility -= utilityOf(problem, plans, job);
  JobPlan &plan = plans[job];
  Slots slots(plan.slots.lower_bound(now), plan.slots.end());
  for (const auto &[slot, rows] : slots) {
    prices.giveBack(job, slot, rows);
    spent += looksOfRow * double(rows.size());
    cost -=
        costOfRows(problem, job, rows, {prices.freeIn(slot), prices.inSlot(slot), prices.growth()});
  }
  plan.slots.erase(plan.slots.lower_bound(now), plan.slots.end());
  return slots;
}

double Replanner::doneBefore(int job) const {
  double done = 0;
  for (const auto &[slot, rows] : plans[job].slots)
    done += samplesIn(problem, job, plans[job], slot);
  return done;
}

/// The slot in which the job may end.
int Replanner::lastOf(int job) const {
  return replan == Replan::KeepEnds && ends[job] >= 0 ? ends[job] : never;
}

/// Jobs that others wait for stay as they are, and so do those that run and must not be moved.
bool Replanner::mayMove(int job) const {
  if (!plans[job].isAdmitted() || plans[job].completion() < now)
    return false;
  if (!problem.job(job).preemptible && plans[job].start() < now)
    return false;
  return llvm::none_of(followers[job], [&](int other) { return plans[other].isAdmitted(); });
}

std::vector<int> Replanner::movable(int besides) const {
  std::vector<int> jobs;
  for (int job : admitted)
    if (job != besides && mayMove(job) && !llvm::is_contained(problem.before(besides), job))
      jobs.push_back(job);
  return jobs;
}

/// Looks at a site in a slot for `offer`, at least.
double Replanner::looksOf(const Offer &offer) const {
  return double(std::max<size_t>(1, offer.costs.size())) *
         double(problem.machines().sites().size() + 4);
}

/// Inserts what `job` has left.
bool Replanner::insertAgain(int job, double scale) {
  std::optional<int> start = startAfter(problem, job, plans);
  if (!start || std::max(now, *start) > problem.lastSlot(job))
    return false;
  rest.setDone(job, doneBefore(job) + problem.job(job).done);
  OfferOptions options;
  options.locality = offers.locality;
  options.costScale = scale;
  options.last = lastOf(job);
  options.mostLooks = mostWork - spent;
  RoundingCounts unused;
  Offer offer = bestOffer(rest, job, std::max(now, *start), prices, options, unused);
  rest.setDone(job, problem.job(job).done);
  spent += looksOf(offer);
  if (offer.slots.empty())
    return false;
  put(job, offer.slots);
  return true;
}

void Replanner::order(std::vector<int> &jobs, bool byEnd) {
  if (byEnd)
    llvm::sort(jobs, [&](int a, int b) { return std::tie(ends[a], a) < std::tie(ends[b], b); });
  else
    for (size_t i = 1; i < jobs.size(); ++i)
      std::swap(jobs[i], jobs[nextRandom(random) % (i + 1)]);
}

/// One to five of `jobs`.
std::vector<int> Replanner::someOf(std::vector<int> jobs) {
  size_t wanted = std::min<size_t>(1 + nextRandom(random) % 5, jobs.size());
  for (size_t i = 0; i < wanted; ++i)
    std::swap(jobs[i], jobs[i + nextRandom(random) % (jobs.size() - i)]);
  jobs.resize(wanted);
  return jobs;
}

/// Plans the jobs of `out` anew, as many as can be looked at, and, before them, `added` (-1: none),
/// at costs times `scale`. All is as it was unless every job has a plan and the utility less the
/// cost rises.
bool Replanner::tryAnew(std::vector<int> out, int added, bool byEnd, double scale) {
  double each = firstWindow(problem) * double(problem.machines().sites().size() + 4);
  auto affordable = int64_t((mostWork - spent) / each) - (added >= 0 ? 1 : 0);
  if (affordable <= 0)
    return false;
  out.resize(std::min(out.size(), size_t(affordable)));
  double before = worth();
  Parts old;
  for (int job : out)
    old.emplace_back(job, takeOut(job));
  order(out, byEnd);
  if (added >= 0)
    out.insert(out.begin(), added);
  size_t placed = 0;
  while (placed < out.size() && spent < mostWork && insertAgain(out[placed], scale))
    ++placed;
  if (placed == out.size() && worth() > before + 1e-9 * std::abs(before))
    return true;
  for (size_t i = 0; i < placed; ++i)
    takeOut(out[i]);
  for (const auto &[job, slots] : old)
    put(job, slots);
  return false;
}

void Replanner::admitDirectly(int job, RoundingCounts &counts) {
  std::optional<int> start = startAfter(problem, job, plans);
  if (!start) {
    plans[job].reason = "waits for a job that is declined";
    return;
  }
  Offer offer;
  if (std::max(now, *start) < problem.slots())
    offer = chooseOffer(problem, job, std::max(now, *start), prices, offers, counts);
  spent += looksOf(offer);
  rest.setChoice(job, problem.job(job).choice);
  plans[job].choice = problem.job(job).choice;
  plans[job].reason = reasonOf(problem, job, std::max(now, *start), offer);
  if (!offer.slots.empty() && offer.payoff() > 0)
    put(job, offer.slots);
}

void Replanner::decide(int job, RoundingCounts &counts) {
  constexpr int tries = 12, most = 15;
  constexpr double scales[] = {1, 1, 0.3, 0.1};
  now = problem.release(job);
  if (now >= problem.slots()) {
    plans[job].reason = reasonOf(problem, job, now, {});
    return;
  }
  // The cost of earlier plans stays at earlier prices: only differences within a decision count.
  if (discounted > 0)
    prices.discountFrom(now, discounted);
  spent = 0;
  llvm::erase_if(admitted, [&](int each) { return plans[each].completion() < now; });
  admitDirectly(job, counts);
  bool wasAdmitted = plans[job].isAdmitted();
  std::vector<int> others = movable(job);
  // First the job with others, then others alone, which may have gained room.
  for (int i = 0; i < 2 * tries && replan != Replan::None && spent < mostWork; ++i) {
    bool isAdmitted = plans[job].isAdmitted(), isWithJob = i < tries;
    std::vector<int> out = i == 0 && others.size() <= most ? others : someOf(others);
    double scale = isWithJob ? scales[nextRandom(random) % std::size(scales)] : 1;
    if (isAdmitted && isWithJob && mayMove(job))
      out.push_back(job);
    if (!out.empty())
      tryAnew(std::move(out), isAdmitted || !isWithJob ? -1 : job, i % 3 == 0, scale);
  }
  if (!wasAdmitted && plans[job].isAdmitted())
    plans[job].reason = "other jobs are planned anew so that it fits";
  if (plans[job].isAdmitted())
    admitted.insert(llvm::lower_bound(admitted, job), job);
  for (int each : admitted)
    ends[each] = plans[each].completion();
}

} // namespace heterplan::jobs
