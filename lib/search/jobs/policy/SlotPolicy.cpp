#include "search/jobs/policy/SlotPolicy.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace heterplan::jobs {

namespace {
/// One run of a policy over the slots.
class Simulation {
public:
  Simulation(const Problem &problem, const PolicyOptions &options)
      : problem(problem), options(options), weights(shareWeights(problem)), left(problem.size()),
        most(problem.size()), previous(problem.size()), received(problem.size()) {
    result.schedule.resize(problem.size());
    for (int job = 0; job < problem.size(); ++job) {
      left[job] = problem.job(job).work();
      most[job] = mostSamples(problem, job, weights);
    }
  }

  template <typename Allocate> PolicyResult run(Allocate allocate) {
    for (int slot = 0; slot < problem.slots(); ++slot) {
      admit(slot);
      if (active.empty())
        continue;
      std::vector<Rows> rows(problem.size());
      Seconds started = now();
      std::vector<double> free = problem.capacity();
      std::vector<int> movable = pin(rows, free);
      allocate(SlotView{problem, slot, movable, free, left, most, previous, weights, received},
               rows);
      if (options.clock)
        result.decisions.push_back(now() - started);
      startOnlyWhatEnds(slot, rows);
      apply(slot, rows);
      previous = std::move(rows);
      if (options.progress)
        options.progress(double(slot + 1) / problem.slots());
    }
    decline();
    return std::move(result);
  }

private:
  Seconds now() const { return options.clock ? options.clock() : Seconds(); }

  /// Jobs of `slot` arrive, or no longer wait for others; those that can no longer end in time
  /// leave.
  void admit(int slot) {
    const std::vector<int> &arrivals = problem.arrivals();
    while (next < arrivals.size() && problem.release(arrivals[next]) <= slot)
      waiting.push_back(arrivals[next++]);
    llvm::erase_if(waiting, [&](int job) {
      bool isReady = llvm::all_of(problem.before(job), [&](int each) { return finished(each); });
      if (isReady)
        active.push_back(job);
      return isReady;
    });
    llvm::erase_if(active, [&](int job) {
      return !isDone(problem.job(job), problem.job(job).work() - left[job] +
                                           most[job] * (problem.lastSlot(job) + 1 - slot));
    });
  }

  /// Jobs that run and are not preemptible keep what they have. The others.
  std::vector<int> pin(std::vector<Rows> &rows, std::vector<double> &free) const {
    std::vector<int> movable;
    for (int job : active)
      if (problem.job(job).preemptible || previous[job].empty()) {
        movable.push_back(job);
      } else {
        rows[job] = previous[job];
        problem.take(job, rows[job], free);
      }
    return movable;
  }

  /// A job that is not preemptible starts only with rows with which it ends in time.
  void startOnlyWhatEnds(int slot, std::vector<Rows> &rows) const {
    for (int job : active) {
      if (problem.job(job).preemptible || rows[job].empty() || !previous[job].empty())
        continue;
      double each = problem.samplesOf(job, rows[job]);
      double later = each * (problem.lastSlot(job) - slot);
      if (!isDone(problem.job(job), each * problem.restartShare(job) + later))
        rows[job].clear();
    }
  }

  void apply(int slot, const std::vector<Rows> &rows) {
    for (int job : active) {
      if (rows[job].empty())
        continue;
      result.schedule[job].slots[slot] = rows[job];
      for (const Row &row : rows[job])
        if (row.workers > 0)
          received[job][problem.typeAt(job, row.site)] +=
              double(row.workers) / double(workersOf(rows[job]));
      left[job] -= problem.samplesIn(job, rows[job], previous[job]);
    }
    llvm::erase_if(active, [&](int job) { return finished(job); });
  }

  bool finished(int job) const {
    return isDone(problem.job(job), problem.job(job).work() - left[job]);
  }

  void decline() {
    for (int job = 0; job < problem.size(); ++job) {
      JobPlan &plan = result.schedule[job];
      if (finished(job))
        continue;
      plan.slots.clear();
      plan.reason = problem.job(job).arrival >= problem.slots() ? "arrives after the horizon"
                    : most[job] == 0                            ? "fits on no node"
                                                                : inTime(problem, job);
    }
  }

  const Problem &problem;
  const PolicyOptions &options;
  std::vector<double> weights, left, most;
  std::vector<Rows> previous;
  std::vector<std::map<int, double>> received;
  std::vector<int> active, waiting;
  size_t next = 0;
  PolicyResult result;
};
} // namespace

PolicyResult SlotPolicy::run(const Problem &problem, const PolicyOptions &options) const {
  return Simulation(problem, options).run([&](const SlotView &view, std::vector<Rows> &rows) {
    allocate(view, rows);
  });
}

Rows takeMost(const SlotView &view, int job, std::vector<double> &free, int64_t workers) {
  return takeMost(view, job, free, view.weights, workers);
}

namespace {
bool fits(const Problem &problem, int job, const Rows &rows, std::vector<double> &free) {
  problem.take(job, rows, free);
  bool holds = isWithin(problem, job, rows, free);
  problem.take(job, rows, free, -1);
  return holds;
}

/// Whether no other rows train more than those of the slot before: as many workers as the job may
/// have, equally fast everywhere, with nothing to exchange between nodes.
bool isBest(const SlotView &view, int job, int64_t workers) {
  const Problem &problem = view.problem;
  const Rows &before = view.previous[job];
  int64_t most = std::max(std::min(workers, problem.job(job).batch), problem.job(job).minWorkers);
  bool isTogether = before.size() == 1 || problem.job(job).gradient == Bytes();
  return !before.empty() && isTogether && workersOf(before) == most &&
         !problem.hasUnequalSites(job) && problem.samplesOf(job, before) <= view.left[job];
}

/// Whether the job trains as much with the rows that it had as with `others`, which are no fewer
/// workers, or would restart with them.
bool gainsNothing(const SlotView &view, int job, const SlotPlan &others) {
  const Rows &before = view.previous[job];
  double left = view.left[job];
  double kept = std::min(left, view.problem.samplesOf(job, before));
  bool isNoLarger = workersOf(before) <= workersOf(others.rows);
  return kept >= std::min(left, others.samples) * (1 - 1e-12) &&
         (isNoLarger || view.problem.restartShare(job) < 1);
}
} // namespace

Rows takeMost(const SlotView &view, int job, std::vector<double> &free,
              const std::vector<double> &weights, int64_t workers) {
  const Problem &problem = view.problem;
  if (isBest(view, job, workers) && fits(problem, job, view.previous[job], free)) {
    problem.take(job, view.previous[job], free);
    return view.previous[job];
  }
  SlotOptions options(problem, job, {free, weights, {}},
                      {view.left[job], workers, problem.restartShare(job)});
  double most = options.most();
  if (most <= 0)
    return {};
  SlotPlan plan = options.plan(most);
  const Rows &before = view.previous[job];
  bool mayKeep =
      !before.empty() && workersOf(before) <= std::max(workers, problem.job(job).minWorkers);
  if (mayKeep && gainsNothing(view, job, plan) && fits(problem, job, before, free))
    plan.rows = before;
  problem.take(job, plan.rows, free);
  return std::move(plan.rows);
}

int64_t workersOnType(const Problem &problem, int job, int type) {
  const Machines &machines = problem.machines();
  int64_t sum = 0;
  for (int site = 0; site < int(machines.sites().size()); ++site)
    if (problem.takesWorkers(job, site) && problem.typeAt(job, site) == type)
      sum += fitting(problem, job, problem.job(job).worker, site, problem.capacity(),
                     problem.job(job).batch);
  return sum;
}

double samplesOnType(const Problem &problem, int job, int type) {
  const Machines &machines = problem.machines();
  double most = 0;
  for (int site = 0; site < int(machines.sites().size()); ++site)
    if (problem.takesWorkers(job, site) && problem.typeAt(job, site) == type)
      most = std::max(most,
                      problem.samplesOfWorker(job, machines.sites()[site].kind,
                                              machines.nodes()[machines.sites()[site].node].link));
  return most;
}

/// Nodes of other types offer no GPUs, or no cores, of their own.
Rows takeOnType(const SlotView &view, int job, int type, int64_t workers,
                std::vector<double> &free) {
  std::vector<double> own = free;
  const Machines &machines = view.problem.machines();
  for (int site = 0; site < int(machines.sites().size()); ++site)
    if (view.problem.takesWorkers(job, site) && view.problem.typeAt(job, site) != type)
      own[machines.sites()[site].resource[view.problem.job(job).runsOnGpus() ? Gpu : Cpu]] = 0;
  Rows rows = takeMost(view, job, own, workers);
  view.problem.take(job, rows, free);
  return rows;
}

double mostSamples(const Problem &problem, int job, const std::vector<double> &weights) {
  return SlotOptions(problem, job, {problem.capacity(), weights, {}}, {problem.job(job).work()})
      .most();
}

std::string inTime(const Problem &problem, int job) {
  if (problem.lastSlot(job) + 1 < problem.slots())
    return "cannot end before its deadline";
  return problem.before(job).empty() ? "cannot end before the horizon"
                                     : "cannot end before the horizon after the jobs it waits for";
}

int64_t workersOf(const Rows &rows) {
  int64_t sum = 0;
  for (const Row &row : rows)
    sum += row.workers;
  return sum;
}

std::vector<double> shareWeights(const Problem &problem) {
  const Machines &machines = problem.machines();
  auto keyOf = [&](int site, int r) {
    return r == Gpu ? machines.sites()[site].gpuType + resources : r;
  };
  std::map<int, double> totals;
  std::vector<double> weights(machines.capacity().size());
  for (int pass = 0; pass < 2; ++pass)
    for (size_t site = 0; site < machines.sites().size(); ++site)
      for (int r = 0; r < resources; ++r) {
        int resource = machines.sites()[site].resource[r];
        bool isFirst = machines.nodes()[machines.sites()[site].node].firstSite == int(site);
        if (pass == 0 && (r == Gpu || isFirst))
          totals[keyOf(int(site), r)] += machines.capacity()[resource] / unitOf[r];
        else if (double total = totals[keyOf(int(site), r)]; pass == 1 && total > 0)
          weights[resource] = 1 / total;
      }
  return weights;
}

} // namespace heterplan::jobs
