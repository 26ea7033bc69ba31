#include "search/jobs/policy/FairShares.h"

#include <algorithm>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class Filling {
public:
  explicit Filling(const SlotView &view) : view(view), shares(view.problem.size()) {
    const Machines &machines = view.problem.machines();
    for (size_t i = 0; i < machines.capacity().size(); ++i)
      left[machines.resourceOf(int(i))] += machines.capacity()[i];
    total = left;
    for (int job : view.active)
      add(job);
  }

  std::vector<FairShare> run() {
    while (!growing.empty()) {
      double step = largestStep();
      for (const Growing &job : growing)
        give(job, step);
      std::erase_if(growing, [&](const Growing &job) { return isStuck(job); });
    }
    return std::move(shares);
  }

private:
  struct Growing {
    int job;
    Demand each{};       // of a worker with its part of a server
    double dominant = 0; // share of a worker
    double most = 0;     // workers that it can use
  };

  void add(int index) {
    const Job &job = view.problem.job(index);
    Growing entry;
    entry.job = index;
    for (int r = 0; r < resources; ++r) {
      entry.each[r] = job.worker[r] + job.server[r] / job.workersPerServer;
      if (total[r] > 0)
        entry.dominant = std::max(entry.dominant, entry.each[r] / total[r]);
    }
    double inSlot = view.most[index] / double(job.batch); // a worker is at least so fast
    entry.most = inSlot > 0 ? std::min(double(job.batch), view.left[index] / inSlot) : 0;
    growing.push_back(entry);
  }

  /// Growth of the dominant shares until the next job or resource is full.
  double largestStep() const {
    double step = infinity;
    Demand speed{};
    for (const Growing &job : growing) {
      step = std::min(step, (job.most - shares[job.job].workers) * job.dominant);
      for (int r = 0; r < resources; ++r)
        speed[r] += job.each[r] / job.dominant;
    }
    for (int r = 0; r < resources; ++r)
      if (speed[r] > 0)
        step = std::min(step, left[r] / speed[r]);
    return std::max(step, 0.0);
  }

  void give(const Growing &job, double step) {
    FairShare &share = shares[job.job];
    share.share += step;
    share.workers += step / job.dominant;
    for (int r = 0; r < resources; ++r)
      left[r] -= step / job.dominant * job.each[r];
  }

  bool isStuck(const Growing &job) const {
    constexpr double rounding = 1e-9;
    if (shares[job.job].workers >= job.most * (1 - rounding))
      return true;
    for (int r = 0; r < resources; ++r)
      if (job.each[r] > 0 && left[r] <= total[r] * rounding)
        return true;
    return false;
  }

  const SlotView &view;
  std::vector<FairShare> shares;
  std::vector<Growing> growing;
  Demand left{}, total{};
};
} // namespace

std::vector<FairShare> fairShares(const SlotView &view) { return Filling(view).run(); }

} // namespace heterplan::jobs
