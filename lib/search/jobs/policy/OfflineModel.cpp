#include "search/jobs/policy/OfflineModel.h"

#include "search/jobs/SlotOptions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heterplan::jobs {

namespace {
constexpr double mostColumns = 20'000;
constexpr double work = 2e7; // columns × nodes of the search

using Terms = std::vector<std::pair<int, double>>;
} // namespace

OfflineModel::OfflineModel(const Problem &problem) : problem(problem) {
  tooLarge = columnsWanted() > mostColumns;
  if (tooLarge)
    return;
  uses.resize(problem.slots());
  for (auto &slot : uses)
    slot.resize(problem.machines().capacity().size());
  for (int job = 0; job < problem.size(); ++job)
    addJob(job);
  addCapacities();
}

double OfflineModel::columnsWanted() const {
  double zones = double(problem.machines().cluster().zones.size());
  double places = zones > 1 ? zones + 2 : 2;
  double slots = 0;
  for (const Job &job : problem.jobs())
    slots += std::max(0, problem.slots() - job.arrival);
  return slots * (1 + double(problem.machines().sites().size()) * (2 * places + 1));
}

void OfflineModel::addJob(int index) {
  const Job &job = problem.job(index);
  Terms ended, work;
  for (int slot = job.arrival; slot < problem.slots(); ++slot) {
    addSlot(index, slot, work);
    double utility = job.utility.at(slot - job.arrival);
    if (work.empty() || utility <= 0)
      continue;
    ended.emplace_back(model.column(0, 1, -utility, /*whole=*/true), 1);
    // Work up to here ≥ all of it, if the job has ended by now.
    Terms row = work;
    for (auto [column, one] : ended)
      row.emplace_back(column, -(1 - 1e-9));
    model.row(row, 0, LinearModel::infinity);
  }
  if (!ended.empty())
    model.row(ended, 0, 1);
}

void OfflineModel::addSlot(int index, int slot, Terms &work) {
  const Machines &machines = problem.machines();
  Terms chosen, workers;
  for (const Machine &node : machines.nodes()) {
    std::vector<int> sites(node.sites);
    std::iota(sites.begin(), sites.end(), node.firstSite);
    addPlace(index, slot, sites, node.link, chosen, workers, work);
  }
  int zones = static_cast<int>(machines.cluster().zones.size());
  for (int zone = zones > 1 ? -1 : zones - 1; machines.nodes().size() > 1; ++zone) {
    std::vector<int> sites;
    for (int site = 0; site < int(machines.sites().size()); ++site)
      if (zone < 0 || machines.nodes()[machines.sites()[site].node].zone == zone)
        sites.push_back(site);
    addPlace(index, slot, sites, machines.network(zone), chosen, workers, work);
    if (zone + 1 >= zones)
      break;
  }
  if (chosen.empty())
    return;
  model.row(chosen, 0, 1);
  model.row(workers, 0, double(problem.job(index).batch));
}

void OfflineModel::addPlace(int index, int slot, const std::vector<int> &sites,
                            BytesPerSecond bandwidth, Terms &chosen, Terms &workers, Terms &work) {
  const Machines &machines = problem.machines();
  const Job &job = problem.job(index);
  const std::vector<double> &capacity = machines.capacity();
  std::vector<std::pair<int, int64_t>> hosts; // of workers
  for (int site : sites)
    if (problem.takesWorkers(index, site))
      if (int64_t most = fitting(problem, job.worker, site, capacity, job.batch); most > 0)
        hosts.emplace_back(site, most);
  if (hosts.empty())
    return;
  int place = model.column(0, 1, 0, /*whole=*/true);
  chosen.emplace_back(place, 1);
  Terms ratio;
  auto add = [&](int site, double most, const Demand &demand) {
    int column = model.column(0, most, 0, /*whole=*/true);
    model.row(Terms{{column, 1}, {place, -most}}, -LinearModel::infinity, 0);
    for (int r = 0; r < resources; ++r)
      if (int resource = machines.sites()[site].resource[r]; demand[r] > 0)
        uses[slot][resource].emplace_back(column, demand[r] / capacity[resource]);
    return column;
  };
  for (auto [site, most] : hosts) {
    int column = add(site, double(most), job.worker);
    double samples = problem.samplesOfWorker(index, machines.sites()[site].kind, bandwidth);
    work.emplace_back(column, samples / job.work());
    workers.emplace_back(column, 1);
    ratio.emplace_back(column, -1);
    cells.push_back({index, slot, site, column, -1});
  }
  int64_t servers = job.serversFor(job.batch);
  for (int site : sites) {
    int64_t most = problem.takesServers(index, site)
                       ? fitting(problem, job.server, site, capacity, servers)
                       : 0;
    if (most == 0)
      continue;
    int column = add(site, double(most), job.server);
    ratio.emplace_back(column, job.workersPerServer);
    cells.push_back({index, slot, site, -1, column});
  }
  model.row(ratio, 0, LinearModel::infinity);
}

void OfflineModel::addCapacities() {
  for (const auto &slot : uses)
    for (const Terms &terms : slot)
      if (terms.size() > 1)
        model.row(terms, 0, 1);
}

OfflineModel::Answer OfflineModel::solve(int nodes, double known) const {
  Answer answer;
  int allowed = std::min(nodes, std::max(1, int(work / std::max(model.columns(), 1))));
  LinearModel::Limits limits;
  limits.nodes = allowed;
  limits.cutoff = -known - 1e-9 * std::max(1.0, known);
  LinearModel::Solution solution = model.minimised(limits);
  answer.proven = solution.optimal || solution.infeasible;
  if (solution.values.empty())
    return answer;
  Schedule schedule = decode(solution.values);
  // The network may be faster than a node's link, which the model does not know of one node.
  double worth = totalUtility(problem, schedule);
  answer.proven &= worth >= -solution.objective - 1e-6 * std::max(1.0, known);
  answer.schedule = std::move(schedule);
  return answer;
}

Schedule OfflineModel::decode(const std::vector<double> &values) const {
  Schedule schedule(problem.size());
  for (const Cell &cell : cells) {
    auto workers = cell.workers < 0 ? 0 : std::llround(values[cell.workers]);
    auto servers = cell.servers < 0 ? 0 : std::llround(values[cell.servers]);
    if (workers + servers == 0)
      continue;
    Rows &rows = schedule[cell.job].slots[cell.slot];
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row &row) { return row.site == cell.site; });
    if (row == rows.end())
      row = rows.insert(rows.end(), Row{cell.site, 0, 0});
    row->workers += workers;
    row->servers += servers;
  }
  for (int job = 0; job < problem.size(); ++job)
    trim(problem, job, schedule[job]);
  return schedule;
}

} // namespace heterplan::jobs
