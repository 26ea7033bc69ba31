// Goodput of all jobs together, as in Sia (Jayaram Subramanya et al., SOSP 2023): each slot chooses
// a number of workers on one device type for each job, by the integer model of section 3.4.
#include "search/jobs/policy/Policies.h"
#include "search/jobs/policy/TypeModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
constexpr double power = -0.5;  // p of the publication: below 0, slow jobs count more
constexpr double penalty = 1.1; // λ: of a job without workers
constexpr int mostColumns = 400, nodes = 50;

class Configurations {
public:
  explicit Configurations(const SlotView &view) : view(view) {
    for (int job : view.active)
      addJob(job);
    limitTypes(view, view.free, options, model);
  }

  /// The options in the order in which they are placed: those of the model's solution first.
  std::vector<TypeOption> chosen() const {
    LinearModel::Solution solution = model.relaxed();
    bool isWhole = llvm::all_of(
        solution.values, [](double value) { return std::abs(value - std::round(value)) < 1e-6; });
    if (solution.optimal && !isWhole && model.columns() <= mostColumns) {
      LinearModel::Limits limits;
      limits.nodes = nodes;
      LinearModel::Solution whole = model.minimised(limits);
      if (!whole.values.empty())
        solution = std::move(whole);
    }
    if (solution.values.empty())
      return {};
    std::vector<TypeOption> order;
    for (const TypeOption &option : options)
      if (solution.values[option.column] > 1e-6)
        order.push_back(option);
    std::stable_sort(order.begin(), order.end(), [&](const TypeOption &a, const TypeOption &b) {
      return solution.values[a.column] > solution.values[b.column];
    });
    return order;
  }

private:
  void addJob(int job) {
    size_t first = options.size();
    const Job &facts = view.problem.job(job);
    for (int type = 0; type < view.problem.types(job); ++type) {
      int64_t most = std::min(facts.batch, workersOnType(view.problem, job, type));
      double each = samplesOnType(view.problem, job, type);
      for (int64_t workers = facts.minWorkers; workers <= most;
           workers = workers < most ? std::min(2 * workers, most) : most + 1)
        options.push_back({job, type, workers, double(workers) * each, 0});
    }
    double least = LinearModel::infinity;
    for (size_t i = first; i < options.size(); ++i)
      least = std::min(least, options[i].samples);
    std::vector<std::pair<int, double>> one;
    for (size_t i = first; i < options.size(); ++i) {
      double goodput = goodputOf(options[i]) / least;
      options[i].column = model.column(0, 1, std::pow(goodput, power) - penalty, /*whole=*/true);
      one.emplace_back(options[i].column, 1);
    }
    if (!one.empty())
      model.row(one, 0, 1);
  }

  /// Samples of the slot. The batch of a job is fixed, so that all samples are worth the same: the
  /// statistical efficiency of Sia is 1.
  double goodputOf(const TypeOption &option) const {
    const Rows &before = view.previous[option.job];
    bool isSame =
        !before.empty() && workersOf(before) == option.workers &&
        llvm::all_of(before, [&](const Row &row) {
          return row.workers == 0 || view.problem.typeAt(option.job, row.site) == option.type;
        });
    return option.samples * (isSame ? 1 : view.problem.restartShare(option.job));
  }

  const SlotView &view;
  LinearModel model;
  std::vector<TypeOption> options;
};
} // namespace

void SiaLike::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  if (view.active.empty())
    return;
  std::vector<double> free = view.free;
  for (const TypeOption &option : Configurations(view).chosen())
    if (rows[option.job].empty())
      rows[option.job] = takeOnType(view, option.job, option.type, option.workers, free);
  for (int job : view.active) // what the model or the placement left
    if (rows[job].empty())
      rows[job] = takeMost(view, job, free, view.problem.job(job).minWorkers);
}

} // namespace heterplan::jobs
