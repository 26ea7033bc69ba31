// Gavel (Narayanan et al., OSDI 2020): the linear models of section 4 for max-min fairness, for the
// sum of throughputs and for cost with objectives of the service, and the rounds of section 5.
#include "search/jobs/policy/Policies.h"
#include "search/jobs/policy/TypeModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace heterplan::jobs {

namespace {
/// Jobs whose workers are all on one device type.
class Allocation {
public:
  Allocation(const SlotView &view, GavelObjective objective, bool withDeadlines)
      : view(view), objective(objective) {
    for (int job : view.active)
      addJob(job);
    if (objective == GavelObjective::MaxMin)
      least = model.column(0, LinearModel::infinity, -1);
    for (Entry &entry : entries)
      if (objective == GavelObjective::MaxMin)
        addFairness(entry);
      else if (objective == GavelObjective::Cost && withDeadlines)
        addDeadline(entry);
    std::vector<TypeOption> all;
    for (const Entry &entry : entries)
      all.insert(all.end(), entry.options.begin(), entry.options.end());
    limitTypes(view, view.problem.machines().capacity(), all, model);
    LinearModel::Solution solution = model.relaxed();
    isSolved = solution.optimal;
    for (Entry &entry : entries)
      for (Option &option : entry.options)
        option.share = solution.optimal ? std::max(0.0, solution.values[option.column]) : 0;
  }

  struct Option : TypeOption {
    double share = 0; // of the time
  };
  struct Entry {
    int job = 0;
    std::vector<Option> options;
  };
  const std::vector<Entry> &all() const { return entries; }
  bool isSolved = false; // not where deadlines cannot all be met

private:
  void addJob(int job) {
    Entry entry{job, {}};
    std::vector<std::pair<int, double>> time;
    const Job &facts = view.problem.job(job);
    double fastest = 0;
    for (int type = 0; type < view.problem.types(job); ++type)
      if (int64_t workers = std::min(facts.batch, workersOnType(view.problem, job, type));
          workers >= facts.minWorkers)
        fastest = std::max(fastest, double(workers) * samplesOnType(view.problem, job, type));
    for (int type = 0; type < view.problem.types(job); ++type) {
      int64_t workers = std::min(facts.batch, workersOnType(view.problem, job, type));
      if (workers < facts.minWorkers)
        continue;
      double each = samplesOnType(view.problem, job, type);
      Option option{{job, type, workers, double(workers) * each, 0}, 0};
      option.column = model.column(0, 1, -gainOf(option, fastest));
      time.emplace_back(option.column, 1);
      entry.options.push_back(option);
    }
    if (!time.empty())
      model.row(time, 0, 1);
    entries.push_back(std::move(entry));
  }

  /// Part of the objective for all of the time: throughput relative to the fastest type, and over
  /// the price of the devices.
  double gainOf(const Option &option, double fastest) const {
    if (objective == GavelObjective::MaxMin)
      return 0;
    double throughput = option.samples / fastest;
    if (objective == GavelObjective::Sum || !view.problem.job(option.job).runsOnGpus())
      return throughput;
    double price = view.problem.machines().cluster().types[option.type].price.value();
    double each = double(option.workers) * view.problem.job(option.job).worker[Gpu];
    return throughput / (std::max(price, 1e-3) * each);
  }

  /// A throughput with which the job ends by its deadline.
  void addDeadline(const Entry &entry) {
    const Job &job = view.problem.job(entry.job);
    if (!job.deadline || entry.options.empty())
      return;
    int64_t slots = int64_t(job.arrival) + job.deadline->slots + 1 - view.slot;
    if (slots <= 0)
      return; // it is missed
    std::vector<std::pair<int, double>> row;
    for (const Option &option : entry.options)
      row.emplace_back(option.column, option.samples / view.left[entry.job]);
    model.row(row, 1 / double(slots), LinearModel::infinity);
  }

  /// The throughput of a job over that of an equal part of the cluster, times its workers.
  void addFairness(const Entry &entry) {
    if (entry.options.empty())
      return;
    double types = 0, equal = 0, workers = 0;
    for (const Option &option : entry.options) {
      double part = double(workersOnType(view.problem, entry.job, option.type)) /
                    double(option.workers) / double(view.active.size());
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

  const SlotView &view;
  GavelObjective objective;
  LinearModel model;
  int least = 0;
  std::vector<Entry> entries;
};
} // namespace

void Gavel::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  if (view.active.empty())
    return;
  auto allocation = std::make_unique<Allocation>(view, objective, /*withDeadlines=*/true);
  if (!allocation->isSolved && objective == GavelObjective::Cost)
    allocation = std::make_unique<Allocation>(view, objective, /*withDeadlines=*/false);
  struct Candidate {
    double priority;
    int job;
    const Allocation::Option *option;
  };
  std::vector<Candidate> order;
  for (const Allocation::Entry &entry : allocation->all())
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
      rows[each.job] = takeOnType(view, each.job, each.option->type, each.option->workers, free);
}

} // namespace heterplan::jobs
