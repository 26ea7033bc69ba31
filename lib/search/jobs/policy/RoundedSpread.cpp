#include "search/jobs/policy/RoundedSpread.h"

#include "search/linear/LinearModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace heterplan::jobs {

namespace {
/// The model of one spread and its fractional solution.
class SpreadModel {
public:
  SpreadModel(const Problem &problem, int index, const SlotState &state, double samples)
      : problem(problem), index(index), job(problem.job(index)), state(state), samples(samples),
        bandwidth(slowestNetwork()) {
    choose();
    addCovering();
    addPacking();
  }

  bool solve() {
    solution = model.relaxed();
    return solution.optimal;
  }
  double cost() const { return solution.objective; }

  enum class Verdict { Holds, PackingFails, CoveringFails };

  /// Rounds the scaled solution to `rows`.
  Verdict round(double scale, std::mt19937_64 &random, SlotPlan &plan) const {
    std::map<int, Row> rows;
    auto amount = [&](int column) {
      double value = std::max(solution.values[column], 0.0) * scale;
      double whole = std::floor(value + 1e-9);
      double chance = double(random() >> 11) * 0x1p-53; // the same on every machine
      return static_cast<int64_t>(whole + (chance < value - whole ? 1 : 0));
    };
    for (auto [site, column] : workers)
      rows.try_emplace(site, Row{site, 0, 0}).first->second.workers = amount(column);
    for (auto [site, column] : servers)
      rows.try_emplace(site, Row{site, 0, 0}).first->second.servers = amount(column);
    if (servers.empty())
      placeFreeServers(rows);
    plan = {};
    for (const auto &[site, row] : rows)
      if (row.workers > 0 || row.servers > 0)
        plan.rows.push_back(row);
    return judge(plan);
  }

private:
  /// Servers that need nothing are with the first workers.
  void placeFreeServers(std::map<int, Row> &rows) const {
    int64_t all = 0;
    Row *first = nullptr;
    for (auto &[site, row] : rows) {
      all += row.workers;
      if (row.workers > 0 && !first)
        first = &row;
    }
    if (first)
      first->servers = job.serversFor(all);
  }

  /// The bandwidth that rows on several nodes see at worst.
  BytesPerSecond slowestNetwork() const {
    BytesPerSecond slowest = problem.machines().network(-1);
    const auto &zones = problem.machines().cluster().zones;
    for (const Zone &zone : zones)
      slowest =
          zones.size() == 1 ? zone.network.bandwidth : std::min(slowest, zone.network.bandwidth);
    return slowest;
  }

  double samplesAt(int site) const {
    return problem.restartShare(index) *
           problem.samplesOfWorker(index, problem.machines().sites()[site].kind, bandwidth);
  }

  template <typename Takes, typename Key>
  std::vector<int> cheapest(const Demand &demand, Takes takes, Key key) const {
    std::vector<std::pair<double, int>> found;
    for (int site = 0; site < int(problem.machines().sites().size()); ++site)
      if (takes(site) && fitting(problem, index, demand, site, state.free, 1) > 0)
        found.emplace_back(key(site), site);
    size_t kept = std::min(found.size(), mostSitesOfSpread);
    std::partial_sort(found.begin(), found.begin() + kept, found.end());
    std::vector<int> sites;
    for (size_t i = 0; i < kept; ++i)
      sites.push_back(found[i].second);
    return sites;
  }

  void choose() {
    auto takesWorkers = [&](int site) { return problem.takesWorkers(index, site); };
    auto takesServers = [&](int site) { return problem.takesServers(index, site); };
    auto workerCost = [&](int site) {
      return costAt(problem, index, job.worker, site, state.cost);
    };
    auto serverCost = [&](int site) {
      return costAt(problem, index, job.server, site, state.cost);
    };
    for (int site : cheapest(job.worker, takesWorkers,
                             [&](int site) { return workerCost(site) / samplesAt(site); }))
      workers[site] =
          model.column(0, double(fitting(problem, index, job.worker, site, state.free, job.batch)),
                       workerCost(site));
    if (llvm::all_of(job.server, [](double each) { return each == 0; }))
      return; // placeFreeServers()
    for (int site : cheapest(job.server, takesServers, serverCost))
      servers[site] =
          model.column(0, double(fitting(problem, index, job.server, site, state.free, job.batch)),
                       serverCost(site));
  }

  void addCovering() {
    std::vector<std::pair<int, double>> work, ratio, batch;
    for (auto [site, column] : workers) {
      work.emplace_back(column, samplesAt(site) / samples);
      ratio.emplace_back(column, -1);
      batch.emplace_back(column, 1);
    }
    for (auto [site, column] : servers)
      ratio.emplace_back(column, job.workersPerServer);
    model.row(work, 1, LinearModel::infinity);
    if (!servers.empty())
      model.row(ratio, 0, LinearModel::infinity);
    model.row(batch, 0, double(job.batch));
  }

  void addPacking() {
    std::map<int, std::vector<std::pair<int, double>>> uses;
    auto add = [&](const std::map<int, int> &columns, const Demand &demand) {
      for (auto [site, column] : columns)
        for (int r = 0; r < resources; ++r)
          if (int resource = problem.machines().sites()[site].resource[r]; demand[r] > 0) {
            uses[resource].emplace_back(column, demand[r] / state.free[resource]);
            problem.forQuotas(index, site, r, [&](int quota) {
              uses[quota].emplace_back(column, demand[r] / state.free[quota]);
            });
          }
    };
    add(workers, job.worker);
    add(servers, job.server);
    for (const auto &[resource, entries] : uses)
      model.row(entries, 0, 1);
  }

  Verdict judge(SlotPlan &plan) const {
    std::vector<double> free = state.free.vec();
    problem.take(index, plan.rows, free);
    int64_t allWorkers = 0, allServers = 0;
    for (const Row &row : plan.rows) {
      allWorkers += row.workers;
      allServers += row.servers;
    }
    if (allWorkers > job.batch || !isWithin(problem, index, plan.rows, free))
      return Verdict::PackingFails;
    plan.samples = problem.restartShare(index) * problem.samplesOf(index, plan.rows);
    plan.cost = costOfRows(problem, index, plan.rows, state);
    bool covers = plan.samples >= samples * (1 - 1e-10) && allWorkers >= job.minWorkers &&
                  allServers >= job.serversFor(allWorkers);
    return covers ? Verdict::Holds : Verdict::CoveringFails;
  }

  const Problem &problem;
  int index;
  const Job &job;
  const SlotState &state;
  double samples;
  BytesPerSecond bandwidth;
  std::map<int, int> workers, servers; // column by site; servers that need nothing have none
  LinearModel model;
  LinearModel::Solution solution;
};
} // namespace

std::optional<SlotPlan> roundedSpread(const Problem &problem, int job, const SlotState &state,
                                      double samples, double worth, const SpreadRounding &rounding,
                                      RoundingCounts &counts) {
  // The model has neither device types nor a number of nodes as constraints.
  if (problem.machines().nodes().size() == 1 || *problem.job(job).sameType ||
      problem.job(job).maxNodes > 0)
    return std::nullopt;
  SpreadModel model(problem, job, state, samples);
  if (!model.solve() || model.cost() >= worth)
    return std::nullopt;
  ++counts.programs;
  std::mt19937_64 random(rounding.seed * 0x9E3779B97F4A7C15ULL + rounding.slot);
  std::optional<SlotPlan> best;
  for (int i = 0; i < rounding.options.tries; ++i) {
    SlotPlan plan;
    SpreadModel::Verdict verdict = model.round(rounding.options.scale, random, plan);
    ++counts.tries;
    counts.held += verdict == SpreadModel::Verdict::Holds;
    counts.packingFailed += verdict == SpreadModel::Verdict::PackingFails;
    counts.coveringFailed += verdict == SpreadModel::Verdict::CoveringFails;
    if (verdict == SpreadModel::Verdict::Holds && (!best || plan.cost < best->cost))
      best = std::move(plan);
  }
  return best;
}

} // namespace heterplan::jobs
