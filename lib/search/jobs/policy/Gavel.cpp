// Gavel with max-min fairness (Narayanan et al., OSDI 2020): the linear model of section 4.1 and
// the rounds of section 5.
#include "search/jobs/policy/Policies.h"
#include "search/linear/LinearModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
/// Jobs whose workers are all on one device type.
class Allocation {
public:
  explicit Allocation(const SlotView &view) : view(view), machines(view.problem.machines()) {
    for (int job : view.active)
      addJob(job);
    least = model.column(0, LinearModel::infinity, -1);
    for (Entry &entry : entries)
      addFairness(entry);
    addCapacities();
    LinearModel::Solution solution = model.relaxed();
    for (Entry &entry : entries)
      for (Option &option : entry.options)
        option.share = solution.optimal ? std::max(0.0, solution.values[option.column]) : 0;
  }

  struct Option { // a job on one type
    int type = 0;
    int64_t workers = 0;
    double samples = 0; // of a slot
    int column = 0;
    double share = 0; // of the time
  };
  struct Entry {
    int job = 0;
    std::vector<Option> options;
  };
  const std::vector<Entry> &all() const { return entries; }

private:
  /// How many workers of `job` the nodes of a type hold together.
  int64_t fits(int job, int type) const {
    int64_t sum = 0;
    for (int site = 0; site < int(machines.sites().size()); ++site)
      if (view.problem.takesWorkers(job, site) && view.problem.typeAt(job, site) == type)
        sum += fitting(view.problem, view.problem.job(job).worker, site, machines.capacity(),
                       view.problem.job(job).batch);
    return sum;
  }

  void addJob(int job) {
    Entry entry{job, {}};
    std::vector<std::pair<int, double>> time;
    const Job &facts = view.problem.job(job);
    for (int type = 0; type < view.problem.types(job); ++type) {
      int64_t workers = std::min(facts.batch, fits(job, type));
      if (workers < facts.minWorkers)
        continue;
      double each = 0;
      for (int site = 0; site < int(machines.sites().size()); ++site)
        if (view.problem.takesWorkers(job, site) && view.problem.typeAt(job, site) == type)
          each = std::max(each, view.problem.samplesOfWorker(
                                    job, machines.sites()[site].kind,
                                    machines.nodes()[machines.sites()[site].node].link));
      Option option{type, workers, double(workers) * each, model.column(0, 1, 0), 0};
      time.emplace_back(option.column, 1);
      entry.options.push_back(option);
    }
    if (!time.empty())
      model.row(time, 0, 1);
    entries.push_back(std::move(entry));
  }

  /// The throughput of a job over that of an equal part of the cluster, times its workers.
  void addFairness(const Entry &entry) {
    if (entry.options.empty())
      return;
    double types = 0, equal = 0, workers = 0;
    for (const Option &option : entry.options) {
      double part = double(fits(entry.job, option.type)) / double(option.workers) /
                    double(view.active.size());
      types += part;
      equal += part * option.samples;
      workers = std::max(workers, double(option.workers));
    }
    equal /= std::max(1.0, types);
    std::vector<std::pair<int, double>> row{{least, -1}};
    for (const Option &option : entry.options)
      row.emplace_back(option.column, workers * option.samples / equal);
    model.row(row, 0, LinearModel::infinity);
  }

  /// Demands within what the nodes of a type have, on average over time.
  void addCapacities() {
    std::map<std::pair<int, int>, double> has;
    std::map<std::pair<int, int>, std::vector<std::pair<int, double>>> uses;
    auto keyOf = [](bool onGpus, int type, int r) {
      return std::pair(onGpus ? type : -1 - type, r);
    };
    for (const Site &site : machines.sites())
      for (int r = 0; r < resources; ++r) {
        if (site.gpuType >= 0)
          has[keyOf(true, site.gpuType, r)] += machines.capacity()[site.resource[r]];
        has[keyOf(false, site.cpuClass, r)] += machines.capacity()[site.resource[r]];
      }
    for (const Entry &entry : entries) {
      const Job &job = view.problem.job(entry.job);
      for (const Option &option : entry.options)
        for (int r = 0; r < resources; ++r)
          if (double each = job.worker[r] + job.server[r] / job.workersPerServer; each > 0)
            uses[keyOf(job.runsOnGpus(), option.type, r)].emplace_back(
                option.column, double(option.workers) * each / unitOf[r]);
    }
    for (const auto &[key, row] : uses)
      model.row(row, 0, has[key] / unitOf[key.second]);
  }

  const SlotView &view;
  const Machines &machines;
  LinearModel model;
  int least = 0;
  std::vector<Entry> entries;
};

/// Sites of one type only: others are too dear to be chosen while there is room.
Rows onType(const SlotView &view, int job, const Allocation::Option &option,
            std::vector<double> &free) {
  std::vector<double> own = free;
  const Machines &machines = view.problem.machines();
  for (int site = 0; site < int(machines.sites().size()); ++site)
    if (view.problem.takesWorkers(job, site) && view.problem.typeAt(job, site) != option.type)
      own[machines.sites()[site].resource[view.problem.job(job).runsOnGpus() ? Gpu : Cpu]] = 0;
  Rows rows = takeMost(view, job, own, option.workers);
  view.problem.take(job, rows, free);
  return rows;
}
} // namespace

void Gavel::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  if (view.active.empty())
    return;
  Allocation allocation(view);
  struct Candidate {
    double priority;
    int job;
    const Allocation::Option *option;
  };
  std::vector<Candidate> order;
  for (const Allocation::Entry &entry : allocation.all())
    for (const Allocation::Option &option : entry.options) {
      auto had = view.received[entry.job].find(option.type);
      double slots = had == view.received[entry.job].end() ? 0 : had->second;
      double lived = std::max(1, view.slot - view.problem.job(entry.job).arrival);
      order.push_back({option.share / std::max(slots / lived, 1e-6), entry.job, &option});
    }
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate &a, const Candidate &b) { return a.priority > b.priority; });
  std::vector<double> free = view.free;
  for (const Candidate &each : order)
    if (rows[each.job].empty())
      rows[each.job] = onType(view, each.job, *each.option, free);
}

} // namespace heterplan::jobs
