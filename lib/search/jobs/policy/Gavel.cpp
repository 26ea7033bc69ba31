// Gavel with max-min fairness (Narayanan et al., OSDI 2020): the linear model of section 4.1 and
// the rounds of section 5.
#include "search/jobs/policy/Policies.h"
#include "search/jobs/policy/TypeModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
/// Jobs whose workers are all on one device type.
class Allocation {
public:
  explicit Allocation(const SlotView &view) : view(view) {
    for (int job : view.active)
      addJob(job);
    least = model.column(0, LinearModel::infinity, -1);
    for (Entry &entry : entries)
      addFairness(entry);
    std::vector<TypeOption> all;
    for (const Entry &entry : entries)
      all.insert(all.end(), entry.options.begin(), entry.options.end());
    limitTypes(view, view.problem.machines().capacity(), all, model);
    LinearModel::Solution solution = model.relaxed();
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

private:
  void addJob(int job) {
    Entry entry{job, {}};
    std::vector<std::pair<int, double>> time;
    const Job &facts = view.problem.job(job);
    for (int type = 0; type < view.problem.types(job); ++type) {
      int64_t workers = std::min(facts.batch, workersOnType(view.problem, job, type));
      if (workers < facts.minWorkers)
        continue;
      double each = samplesOnType(view.problem, job, type);
      Option option{{job, type, workers, double(workers) * each, model.column(0, 1, 0)}, 0};
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
  LinearModel model;
  int least = 0;
  std::vector<Entry> entries;
};
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
      rows[each.job] = takeOnType(view, each.job, each.option->type, each.option->workers, free);
}

} // namespace heterplan::jobs
