// Max-min fairness on a matrix of throughputs, as in Gavel (Narayanan et al., OSDI 2020), for jobs
// whose numbers of workers may change.
#include "search/jobs/policy/Policies.h"
#include "search/linear/LinearModel.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
/// Workers of each active job on each kind of site, fractional.
class Shares {
public:
  explicit Shares(const SlotView &view) : view(view), machines(view.problem.machines()) {
    addColumns();
    addFairness();
    addCapacities();
    LinearModel::Solution solution = model.relaxed();
    workers.assign(columns.size(), std::vector<double>(machines.kinds()));
    for (size_t i = 0; i < columns.size(); ++i)
      for (int kind = 0; kind < machines.kinds(); ++kind)
        if (columns[i][kind] >= 0 && solution.optimal)
          workers[i][kind] = std::max(0.0, solution.values[columns[i][kind]]);
  }

  const std::vector<double> &of(size_t active) const { return workers[active]; }
  double samplesOf(size_t active) const {
    double sum = 0;
    for (int kind = 0; kind < machines.kinds(); ++kind)
      if (workers[active][kind] > 0)
        sum += workers[active][kind] * samples(view.active[active], kind);
    return sum;
  }

private:
  double samples(int job, int kind) const {
    const Site &site = machines.sites()[machines.exampleOf(kind)];
    return view.problem.samplesOfWorker(job, kind, machines.nodes()[site.node].link);
  }

  void addColumns() {
    least = model.column(0, LinearModel::infinity, -1);
    for (int job : view.active) {
      std::vector<int> &own = columns.emplace_back(machines.kinds(), -1);
      std::vector<std::pair<int, double>> all;
      for (int kind = 0; kind < machines.kinds(); ++kind)
        if (std::isfinite(view.problem.sampleTime(job, kind).value())) {
          own[kind] = model.column(0, double(view.problem.job(job).batch), 0);
          all.emplace_back(own[kind], 1);
        }
      model.row(all, 0, double(view.problem.job(job).batch));
    }
  }

  /// Each job's throughput is at least `least` times that of an equal part of the cluster.
  void addFairness() {
    for (size_t i = 0; i < view.active.size(); ++i) {
      std::vector<std::pair<int, double>> row{{least, -1}};
      double equal = view.most[view.active[i]] / double(view.active.size());
      for (int kind = 0; kind < machines.kinds(); ++kind)
        if (columns[i][kind] >= 0)
          row.emplace_back(columns[i][kind], samples(view.active[i], kind) / equal);
      model.row(row, 0, LinearModel::infinity);
    }
  }

  /// Workers and their parts of servers within what nodes of a kind have.
  void addCapacities() {
    std::vector<Demand> has(machines.kinds());
    for (const Site &site : machines.sites())
      for (int r = 0; r < resources; ++r)
        has[site.kind][r] += machines.capacity()[site.resource[r]];
    for (int kind = 0; kind < machines.kinds(); ++kind)
      for (int r = 0; r < resources; ++r) {
        std::vector<std::pair<int, double>> row;
        for (size_t i = 0; i < view.active.size(); ++i) {
          const Job &job = view.problem.job(view.active[i]);
          double each = job.worker[r] + job.server[r] / job.workersPerServer;
          if (columns[i][kind] >= 0 && each > 0)
            row.emplace_back(columns[i][kind], each / unitOf[r]);
        }
        model.row(row, 0, has[kind][r] / unitOf[r]);
      }
  }

  const SlotView &view;
  const Machines &machines;
  LinearModel model;
  int least = 0;
  std::vector<std::vector<int>> columns; // by active job and kind; -1: cannot run there
  std::vector<std::vector<double>> workers;
};

/// Sites of the kinds that the shares give to the job come first.
std::vector<double> preferring(const SlotView &view, const std::vector<double> &shares) {
  constexpr double last = 100;
  double all = 0;
  for (double share : shares)
    all += share;
  std::vector<double> weights = view.weights;
  for (const Site &site : view.problem.machines().sites())
    if (all > 0)
      weights[site.resource[Gpu]] *= 1 + last * (1 - shares[site.kind] / all);
  return weights;
}
} // namespace

void GavelLike::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  Shares shares(view);
  std::vector<std::pair<double, size_t>> order; // what it got by what it should have
  for (size_t i = 0; i < view.active.size(); ++i) {
    const Job &job = view.problem.job(view.active[i]);
    double fair = shares.samplesOf(i) * (view.slot - job.arrival + 1);
    double got = job.work() - view.left[view.active[i]];
    order.emplace_back(fair > 0 ? got / fair : 0, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<double> free = view.free;
  for (auto [behind, i] : order) {
    double sum = 0;
    for (double each : shares.of(i))
      sum += each;
    auto most = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(sum - 1e-9)));
    int job = view.active[i];
    rows[job] = takeMost(view, job, free, preferring(view, shares.of(i)), most);
  }
}

} // namespace heterplan::jobs
