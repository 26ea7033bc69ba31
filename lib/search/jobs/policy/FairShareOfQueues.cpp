// Queues that share the cluster by their quotas and weights, as Kueue's fair sharing does.
#include "search/jobs/policy/Policies.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr int parts = 8; // of its batch: a job grows by one at a time

/// The queues of one slot. Jobs without a queue are one more.
class Sharing {
public:
  Sharing(const SlotView &view, std::vector<Rows> &rows)
      : view(view), rows(rows), totals(view.problem.machines().totals()), free(view.free),
        used(view.problem.queues().size() + 1), waiting(used.size()) {
    // Jobs that must not move count, too.
    for (int job = 0; job < view.problem.size(); ++job)
      add(job, rows[job], 1);
  }

  /// Each queue gets what it can use of its quota.
  void giveQuotas() {
    std::vector<double> borrowable(view.problem.quotas().size());
    for (size_t i = 0; i < borrowable.size(); ++i) {
      const Quota &quota = view.problem.quotas()[i];
      double &own = free[size_t(view.problem.firstQuota()) + i];
      borrowable[i] = std::isinf(quota.amount) ? quota.amount : quota.amount - quota.nominal;
      if (std::isinf(quota.amount))
        own = quota.nominal - taken(int(i));
      else
        own -= borrowable[i];
    }
    serve();
    for (size_t i = 0; i < borrowable.size(); ++i)
      free[size_t(view.problem.firstQuota()) + i] += borrowable[i];
  }

  /// The queue with the least of the cluster for its weight comes first; its jobs by arrival.
  void serve() {
    for (std::vector<int> &queue : waiting)
      queue.clear();
    for (int job : view.active)
      waiting[queueOf(job)].push_back(job);
    for (std::vector<int> &queue : waiting)
      std::reverse(queue.begin(), queue.end());
    for (int next = nextQueue(); next >= 0; next = nextQueue())
      if (!grow(waiting[next].back()))
        waiting[next].pop_back();
  }

private:
  int queueOf(int job) const {
    int queue = view.problem.queueOf(job);
    return queue < 0 ? int(used.size()) - 1 : queue;
  }

  double weightOf(int queue) const {
    return queue < int(view.problem.queues().size()) ? view.problem.queues()[queue].weight : 1;
  }

  /// The dominant share of `queue` over its weight.
  double shareOf(int queue) const {
    double share = 0;
    for (int r = 0; r < resources; ++r)
      if (totals[r] > 0)
        share = std::max(share, used[queue][r] / totals[r]);
    return share / weightOf(queue);
  }

  int nextQueue() const {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int queue = 0; queue < int(used.size()); ++queue)
      if (!waiting[queue].empty() && shareOf(queue) < least) {
        least = shareOf(queue);
        best = queue;
      }
    return best;
  }

  void add(int job, const Rows &own, int sign) {
    const Job &facts = view.problem.job(job);
    for (const Row &row : own)
      for (int r = 0; r < resources; ++r)
        used[queueOf(job)][r] +=
            sign * (double(row.workers) * facts.worker[r] + double(row.servers) * facts.server[r]);
  }

  /// The amount that the jobs have of the resource of a quota that is not limited.
  double taken(int index) const {
    std::vector<double> all(view.problem.capacity().size());
    for (int job = 0; job < view.problem.size(); ++job)
      view.problem.take(job, rows[job], all, -1);
    return all[size_t(view.problem.firstQuota() + index)];
  }

  /// Whether `job` got more workers than it had.
  bool grow(int job) {
    const Job &facts = view.problem.job(job);
    int64_t has = workersOf(rows[job]);
    int64_t wanted = std::max(facts.minWorkers, has + std::max<int64_t>(1, facts.batch / parts));
    if (has >= facts.batch || view.problem.samplesOf(job, rows[job]) >= view.left[job])
      return false;
    Rows before = std::move(rows[job]);
    view.problem.take(job, before, free, -1);
    rows[job] = takeMost(view, job, free, wanted);
    bool isMore = workersOf(rows[job]) > has &&
                  view.problem.samplesOf(job, rows[job]) > view.problem.samplesOf(job, before);
    if (!isMore) {
      view.problem.take(job, rows[job], free, -1);
      view.problem.take(job, before, free);
      rows[job] = std::move(before);
      return false;
    }
    add(job, before, -1);
    add(job, rows[job], 1);
    return true;
  }

  const SlotView &view;
  std::vector<Rows> &rows;
  std::array<double, resources> totals;
  std::vector<double> free;
  std::vector<Demand> used;              // by queue
  std::vector<std::vector<int>> waiting; // by queue: the first job last
};
} // namespace

void FairShareOfQueues::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  Sharing sharing(view, rows);
  if (!view.problem.quotas().empty())
    sharing.giveQuotas();
  sharing.serve();
}

} // namespace heterplan::jobs
