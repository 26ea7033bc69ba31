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
        most(problem.size()), previous(problem.size()) {
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
      allocate(SlotView{problem, slot, active, left, most, previous, weights}, rows);
      if (options.clock)
        result.decisions.push_back(now() - started);
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

  /// Jobs of `slot` arrive; those that can no longer end before the horizon leave.
  void admit(int slot) {
    const std::vector<int> &arrivals = problem.arrivals();
    while (next < arrivals.size() && problem.job(arrivals[next]).arrival <= slot)
      active.push_back(arrivals[next++]);
    llvm::erase_if(active, [&](int job) {
      return !isDone(problem.job(job),
                     problem.job(job).work() - left[job] + most[job] * (problem.slots() - slot));
    });
  }

  void apply(int slot, const std::vector<Rows> &rows) {
    for (int job : active) {
      if (rows[job].empty())
        continue;
      result.schedule[job].slots[slot] = rows[job];
      left[job] -= problem.samplesOf(job, rows[job]);
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
                                                                : "cannot end before the horizon";
    }
  }

  const Problem &problem;
  const PolicyOptions &options;
  std::vector<double> weights, left, most;
  std::vector<Rows> previous;
  std::vector<int> active;
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

Rows takeMost(const SlotView &view, int job, std::vector<double> &free,
              const std::vector<double> &weights, int64_t workers) {
  SlotOptions options(view.problem, job, {free, weights, {}}, {view.left[job], workers});
  double most = options.most();
  if (most <= 0)
    return {};
  Rows rows = options.plan(most).rows;
  view.problem.take(job, rows, free);
  return rows;
}

double mostSamples(const Problem &problem, int job, const std::vector<double> &weights) {
  return SlotOptions(problem, job, {problem.machines().capacity(), weights, {}},
                     {problem.job(job).work()})
      .most();
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
