// Finish-time fairness, as in Themis (Mahajan et al., NSDI 2020): the jobs that are farthest behind
// an equal share of the cluster get the slot first, by the auction of section 3.
#include "search/jobs/policy/Policies.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace heterplan::jobs {

namespace {
constexpr double offeredTo = 0.2; // 1 − f: share of the jobs that take part in the auction

/// Estimates of finish-time fairness: the time from arrival to end over the time with an equal
/// share of the cluster.
class Fair {
public:
  explicit Fair(const SlotView &view) : view(view), jobs(double(view.active.size())) {}

  /// If `job` trains `samples` in each slot from now on.
  double of(int job, double samples) const {
    double lived = view.slot - view.problem.job(job).arrival;
    return (lived + view.left[job] / samples) / alone(job);
  }
  /// If `job` has its equal share from now on.
  double withShare(int job) const { return of(job, view.most[job] / jobs); }
  double eachWorker(int job) const {
    return view.most[job] / double(view.problem.job(job).batch); // a worker is at least so fast
  }

private:
  double alone(int job) const {
    return std::max(1.0, view.problem.job(job).work() * jobs / view.most[job]);
  }

  const SlotView &view;
  double jobs;
};

/// Numbers of workers of the bidding jobs whose fairness has the least product, over the cluster as
/// a whole: each worker goes to the job that gains most for the share that the worker takes.
class Auction {
public:
  Auction(const SlotView &view, const Fair &fair) : view(view), fair(fair) {
    const Machines &machines = view.problem.machines();
    for (size_t i = 0; i < machines.capacity().size(); ++i)
      left[machines.resourceOf(int(i))] += view.free[i];
    total = left;
  }

  /// By position in `bidders`.
  std::vector<int64_t> run(const std::vector<int> &bidders) {
    std::vector<int64_t> workers(bidders.size());
    std::priority_queue<std::pair<double, int>> gains; // ties: the later bidder
    auto offer = [&](size_t at) {
      int64_t more = workers[at] ? 1 : view.problem.job(bidders[at]).minWorkers;
      double gain = gainOf(bidders[at], workers[at], more);
      if (gain > 0)
        gains.emplace(gain, -int(at));
    };
    for (size_t at = 0; at < bidders.size(); ++at) { // the worst first, and its least
      int64_t least = view.problem.job(bidders[at]).minWorkers;
      if (take(bidders[at], least))
        workers[at] = least;
    }
    for (size_t at = 0; at < bidders.size(); ++at)
      offer(at);
    while (!gains.empty()) {
      auto at = size_t(-gains.top().second);
      gains.pop();
      int64_t more = workers[at] ? 1 : view.problem.job(bidders[at]).minWorkers;
      if (!take(bidders[at], more))
        continue;
      workers[at] += more;
      offer(at);
    }
    return workers;
  }

private:
  double each(int job, int r) const {
    const Job &facts = view.problem.job(job);
    return facts.worker[r] + facts.server[r] / facts.workersPerServer;
  }

  bool take(int job, int64_t workers) {
    for (int r = 0; r < resources; ++r)
      if (each(job, r) * double(workers) > left[r])
        return false;
    for (int r = 0; r < resources; ++r)
      left[r] -= each(job, r) * double(workers);
    return true;
  }

  /// Fall of the logarithm of the fairness for each share of the cluster; 0 at the most workers.
  double gainOf(int job, int64_t has, int64_t more) const {
    double samples = fair.eachWorker(job);
    bool isEnough = double(has) * samples >= view.left[job];
    if (has + more > view.problem.job(job).batch || isEnough)
      return 0;
    double share = 0;
    for (int r = 0; r < resources; ++r)
      if (total[r] > 0)
        share = std::max(share, each(job, r) / total[r]);
    double before = has ? std::log(fair.of(job, double(has) * samples)) : 1e6;
    return (before - std::log(fair.of(job, double(has + more) * samples))) / (share * double(more));
  }

  const SlotView &view;
  const Fair &fair;
  Demand left{}, total{};
};
} // namespace

void ThemisLike::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  if (view.active.empty())
    return;
  Fair fair(view);
  std::vector<int> worst = view.active;
  std::stable_sort(worst.begin(), worst.end(),
                   [&](int a, int b) { return fair.withShare(a) > fair.withShare(b); });
  auto bidding = size_t(std::ceil(offeredTo * double(worst.size())));
  std::vector<int> bidders(worst.begin(), worst.begin() + std::ptrdiff_t(bidding));
  std::vector<int64_t> workers = Auction(view, fair).run(bidders);
  std::vector<double> free = view.free;
  for (size_t i = 0; i < bidders.size(); ++i)
    if (workers[i] > 0)
      rows[bidders[i]] = takeMost(view, bidders[i], free, workers[i]);
  for (int job : worst) // work conservation: what is left, the worst first
    if (rows[job].empty())
      rows[job] = takeMost(view, job, free);
}

} // namespace heterplan::jobs
