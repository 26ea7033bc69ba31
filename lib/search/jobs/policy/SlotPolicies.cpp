// The policies that order jobs, or share by dominant resources, slot by slot.
#include "search/jobs/policy/FairShares.h"
#include "search/jobs/policy/Policies.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
/// Jobs in the order of `key`, ties by arrival.
template <typename Key> std::vector<int> sortedBy(const std::vector<int> &jobs, Key key) {
  std::vector<std::pair<double, int>> keyed;
  keyed.reserve(jobs.size());
  for (int job : jobs)
    keyed.emplace_back(key(job), job);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<int> sorted;
  sorted.reserve(keyed.size());
  for (const auto &[value, job] : keyed)
    sorted.push_back(job);
  return sorted;
}

/// Each of `jobs` may grow into what is free, in their order.
void grow(const SlotView &view, const std::vector<int> &jobs, std::vector<double> &free,
          std::vector<Rows> &rows) {
  for (int job : jobs) {
    view.problem.take(job, rows[job], free, -1);
    Rows grown = takeMost(view, job, free);
    if (view.problem.samplesIn(job, grown, view.previous[job]) >=
        view.problem.samplesIn(job, rows[job], view.previous[job])) {
      rows[job] = std::move(grown);
      continue;
    }
    view.problem.take(job, grown, free, -1);
    view.problem.take(job, rows[job], free);
  }
}

/// Serves jobs in turn. A job that needs no less, in no more places, than one that got nothing gets
/// nothing either, and is not tried.
class InTurn {
public:
  InTurn(const SlotView &view, std::vector<double> &free) : view(view), free(free) {}

  /// At most so many `workers`.
  Rows serve(int job, int64_t workers = std::numeric_limits<int64_t>::max()) {
    Need need = needOf(job);
    if (llvm::any_of(failed, [&](const Need &other) { return need.isNoLessThan(other); }))
      return {};
    Rows rows = takeMost(view, job, free, workers);
    if (rows.empty()) {
      llvm::erase_if(failed, [&](const Need &other) { return other.isNoLessThan(need); });
      failed.push_back(std::move(need));
    }
    return rows;
  }

private:
  /// The needs of a job, apart from other facts about it: there are many comparisons.
  struct Need {
    Demand worker{}, server{};
    double workersPerServer = 1;
    int64_t minWorkers = 0;
    int mostNodes = 0, queue = -1;
    bool sameType = false, hasQuotas = false;
    llvm::SmallBitVector kinds; // of sites, on which it can have workers

    bool isNoLessThan(const Need &less) const {
      for (int r = resources - 1; r >= 0; --r)
        if (worker[r] < less.worker[r] || server[r] < less.server[r])
          return false;
      return minWorkers >= less.minWorkers && workersPerServer <= less.workersPerServer &&
             mostNodes <= less.mostNodes && (sameType || !less.sameType) &&
             (!less.hasQuotas || queue == less.queue) && !kinds.test(less.kinds);
    }
  };

  Need needOf(int index) const {
    const Problem &problem = view.problem;
    const Job &job = problem.job(index);
    Need need{job.worker,
              job.server,
              job.workersPerServer,
              job.minWorkers,
              problem.mostNodes(index),
              problem.queueOf(index),
              *job.sameType,
              problem.hasQuotas(index),
              {}};
    need.kinds.resize(unsigned(problem.machines().kinds()));
    for (int kind = 0; kind < problem.machines().kinds(); ++kind)
      need.kinds[unsigned(kind)] = std::isfinite(problem.sampleTime(index, kind).value());
    return need;
  }

  const SlotView &view;
  std::vector<double> &free;
  std::vector<Need> failed;
};

int64_t wholeShare(double workers) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(workers + 1e-9)));
}
} // namespace

void Fifo::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  std::vector<double> free = view.free;
  InTurn turn(view, free);
  for (int job : view.active)
    rows[job] = turn.serve(job);
}

void Srtf::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  std::vector<double> free = view.free;
  InTurn turn(view, free);
  for (int job : sortedBy(view.active, [&](int job) { return view.left[job] / view.most[job]; }))
    rows[job] = turn.serve(job);
}

void Drf::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  std::vector<double> free = view.free;
  std::vector<FairShare> shares = fairShares(view);
  std::vector<int> order = sortedBy(view.active, [&](int job) { return shares[job].share; });
  InTurn turn(view, free);
  for (int job : order)
    rows[job] = turn.serve(job, wholeShare(shares[job].workers));
  grow(view, order, free, rows);
}

namespace {
/// The running jobs that Dorm places anew: none where nobody came or left.
std::vector<int> placedAnew(const SlotView &view, const std::vector<FairShare> &shares) {
  constexpr double changing = 0.2; // share of the running jobs, θ₂
  std::vector<int> running;
  bool sameJobs = true;
  for (int job : view.active)
    view.previous[job].empty() ? void(sameJobs = false) : running.push_back(job);
  for (int job = 0; job < view.problem.size(); ++job)
    sameJobs &= view.previous[job].empty() || !view.problem.job(job).preemptible ||
                llvm::is_contained(view.active, job);
  if (sameJobs)
    return {};
  running = sortedBy(running, [&](int job) {
    double has = double(workersOf(view.previous[job]));
    return -std::abs(has - shares[job].workers) / shares[job].workers;
  });
  running.resize(size_t(std::ceil(changing * double(running.size()))));
  return running;
}
} // namespace

void Dorm::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  std::vector<double> free = view.free;
  std::vector<FairShare> shares = fairShares(view);
  std::vector<int> anew = placedAnew(view, shares);
  bool isEvent = !anew.empty();
  for (int job : view.active) {
    if (view.previous[job].empty()) {
      anew.push_back(job);
    } else if (!llvm::is_contained(anew, job)) {
      rows[job] = view.previous[job];
      view.problem.take(job, rows[job], free);
    }
  }
  anew = sortedBy(anew, [&](int job) { return shares[job].share; });
  for (int job : anew)
    rows[job] = takeMost(view, job, free, wholeShare(shares[job].workers));
  if (isEvent)
    grow(view, anew, free, rows);
}

} // namespace heterplan::jobs
