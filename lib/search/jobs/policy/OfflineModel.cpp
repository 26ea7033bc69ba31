#include "search/jobs/policy/OfflineModel.h"

#include "search/jobs/SlotOptions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heterplan::jobs {

namespace {
constexpr double mostColumns = 20'000;
constexpr double work = 2e7; // columns × nodes of the search
} // namespace

OfflineModel::OfflineModel(const Problem &problem) : problem(problem) {
  tooLarge = columnsWanted() > mostColumns;
  if (tooLarge)
    return;
  uses.resize(problem.slots());
  for (auto &slot : uses)
    slot.resize(problem.capacity().size());
  runs.resize(problem.size());
  ends.resize(problem.size());
  starts.resize(problem.size());
  for (int job = 0; job < problem.size(); ++job) {
    addJob(job);
    if (!starts[job].empty())
      model.row(starts[job], 0, 1);
  }
  addDependencies();
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
  std::optional<Slot> before;
  bool isWaitedFor = llvm::any_of(llvm::seq(0, problem.size()), [&](int other) {
    return llvm::is_contained(problem.before(other), index);
  });
  for (int slot = problem.release(index); slot <= problem.lastSlot(index); ++slot) {
    Slot own;
    addSlot(index, slot, own);
    addChange(index, own, before ? &*before : nullptr, work);
    runs[index][slot] = own.chosen;
    before = std::move(own);
    double utility = job.utility.at(slot - job.arrival);
    if (work.empty() || (utility <= 0 && !isWaitedFor))
      continue;
    int end = model.column(0, 1, -utility, /*whole=*/true);
    ends[index][slot] = end;
    ended.emplace_back(end, 1);
    // Work up to here ≥ all of it, if the job has ended by now.
    Terms row = work;
    for (auto [column, one] : ended)
      row.emplace_back(column, -(1 - 1e-9));
    model.row(row, 0, LinearModel::infinity);
  }
  if (!ended.empty())
    model.row(ended, 0, 1);
}

/// A job has workers only after the ends of those that it waits for.
void OfflineModel::addDependencies() {
  for (int index = 0; index < problem.size(); ++index)
    for (int before : problem.before(index))
      for (const auto &[slot, chosen] : runs[index]) {
        Terms row = chosen;
        for (auto [end, column] : ends[before])
          if (end < slot)
            row.emplace_back(column, -1);
        if (!row.empty())
          model.row(row, -LinearModel::infinity, 0);
      }
}

/// Adds the work of the slot: less where its rows differ from those of the slot `before` and the
/// job restarts. A job that is not preemptible has the same rows in all slots in which it runs,
/// which follow each other.
void OfflineModel::addChange(int index, const Slot &own, const Slot *before, Terms &work) {
  const Job &job = problem.job(index);
  double share = 1 - problem.restartShare(index);
  work.insert(work.end(), own.work.begin(), own.work.end());
  if (own.chosen.empty() || (share == 0 && job.preemptible))
    return;
  auto differs = [&](int column) { // forces `column` to 1 where a count differs
    for (auto counts : {&Slot::atSite, &Slot::serversAtSite})
      for (const auto &[site, terms] : own.*counts) {
        Terms row = terms;
        double most = double(std::max(job.batch, job.serversFor(job.batch)));
        if (before)
          for (auto [other, one] : (before->*counts).at(site))
            row.emplace_back(other, -one);
        row.emplace_back(column, -most);
        model.row(row, -LinearModel::infinity, 0);
        row.back().second = most;
        model.row(row, 0, LinearModel::infinity);
      }
  };
  int changed = model.column(0, 1, 0, /*whole=*/true);
  differs(changed);
  if (share > 0) {
    // lost ≥ share · work − most · (1 − changed)
    int lost = model.column(0, share * own.mostWork, 0);
    Terms row{{lost, 1}, {changed, -share * own.mostWork}};
    for (auto [column, samples] : own.work)
      row.emplace_back(column, -share * samples);
    model.row(row, -share * own.mostWork, LinearModel::infinity);
    work.emplace_back(lost, -1);
  }
  if (job.preemptible)
    return;
  // While it runs on nothing changes: changed ≤ 2 − runs − ran before; it starts once.
  Terms steady{{changed, 1}};
  steady.insert(steady.end(), own.chosen.begin(), own.chosen.end());
  int start = model.column(0, 1, 0, /*whole=*/true);
  Terms starts{{start, 1}};
  for (auto [column, one] : own.chosen)
    starts.emplace_back(column, -1);
  if (before) {
    steady.insert(steady.end(), before->chosen.begin(), before->chosen.end());
    starts.insert(starts.end(), before->chosen.begin(), before->chosen.end());
  }
  model.row(steady, -LinearModel::infinity, 2);
  model.row(starts, 0, LinearModel::infinity);
  this->starts[index].emplace_back(start, 1);
}

void OfflineModel::addSlot(int index, int slot, Slot &own) {
  const Machines &machines = problem.machines();
  for (const Machine &node : machines.nodes()) {
    std::vector<int> sites(node.sites);
    std::iota(sites.begin(), sites.end(), node.firstSite);
    addPlaces(index, slot, sites, node.link, own);
  }
  int zones = static_cast<int>(machines.cluster().zones.size());
  bool isSpread = machines.nodes().size() > 1 && problem.mostNodes(index) > 1;
  for (int zone = zones > 1 ? -1 : zones - 1; isSpread; ++zone) {
    std::vector<int> sites;
    for (int site = 0; site < int(machines.sites().size()); ++site)
      if (zone < 0 || machines.nodes()[machines.sites()[site].node].zone == zone)
        sites.push_back(site);
    addPlaces(index, slot, sites, machines.network(zone), own);
    if (zone + 1 >= zones)
      break;
  }
  if (own.chosen.empty())
    return;
  model.row(own.chosen, 0, 1);
  model.row(own.workers, 0, double(problem.job(index).batch));
}

void OfflineModel::addPlaces(int index, int slot, const std::vector<int> &sites,
                             BytesPerSecond bandwidth, Slot &own) {
  if (!*problem.job(index).sameType)
    return addPlace(index, slot, sites, -1, bandwidth, own);
  for (int type = 0; type < problem.types(index); ++type)
    addPlace(index, slot, sites, type, bandwidth, own);
}

void OfflineModel::addPlace(int index, int slot, const std::vector<int> &sites, int type,
                            BytesPerSecond bandwidth, Slot &own) {
  const Machines &machines = problem.machines();
  const Job &job = problem.job(index);
  const std::vector<double> &capacity = problem.capacity();
  std::vector<std::pair<int, int64_t>> hosts; // of workers
  for (int site : sites)
    if (problem.takesWorkers(index, site) && (type < 0 || problem.typeAt(index, site) == type))
      if (int64_t most = fitting(problem, index, job.worker, site, capacity, job.batch); most > 0)
        hosts.emplace_back(site, most);
  if (hosts.empty())
    return;
  int place = model.column(0, 1, 0, /*whole=*/true);
  own.chosen.emplace_back(place, 1);
  Terms ratio, least{{place, -double(job.minWorkers)}};
  std::map<int, Terms> onNode;
  auto add = [&](int site, double most, const Demand &demand) {
    int column = model.column(0, most, 0, /*whole=*/true);
    model.row(Terms{{column, 1}, {place, -most}}, -LinearModel::infinity, 0);
    onNode[machines.sites()[site].node].emplace_back(column, 1 / most);
    for (int r = 0; r < resources; ++r)
      if (int resource = machines.sites()[site].resource[r]; demand[r] > 0) {
        uses[slot][resource].emplace_back(column, demand[r] / capacity[resource]);
        problem.forQuotas(index, site, r, [&](int quota) {
          if (std::isfinite(capacity[quota]))
            uses[slot][quota].emplace_back(column, demand[r] / capacity[quota]);
        });
      }
    return column;
  };
  for (auto [site, most] : hosts) {
    int column = add(site, double(most), job.worker);
    double samples =
        problem.samplesOfWorker(index, machines.sites()[site].kind, bandwidth) / job.work();
    own.work.emplace_back(column, samples);
    own.mostWork += double(most) * samples;
    own.workers.emplace_back(column, 1);
    own.atSite[site].emplace_back(column, 1);
    least.emplace_back(column, 1);
    ratio.emplace_back(column, -1);
    cells.push_back({index, slot, site, column, -1});
  }
  if (job.minWorkers > 1)
    model.row(least, 0, LinearModel::infinity);
  int64_t servers = job.serversFor(job.batch);
  for (int site : sites) {
    int64_t most = problem.takesServers(index, site)
                       ? fitting(problem, index, job.server, site, capacity, servers)
                       : 0;
    if (most == 0)
      continue;
    int column = add(site, double(most), job.server);
    ratio.emplace_back(column, job.workersPerServer);
    own.serversAtSite[site].emplace_back(column, 1);
    cells.push_back({index, slot, site, -1, column});
  }
  model.row(ratio, 0, LinearModel::infinity);
  limitNodes(index, place, onNode);
}

/// Workers and servers on at most so many nodes as the job may have.
void OfflineModel::limitNodes(int index, int place, const std::map<int, Terms> &onNode) {
  if (int(onNode.size()) <= problem.mostNodes(index))
    return;
  Terms used{{place, -double(problem.mostNodes(index))}};
  for (const auto &[node, terms] : onNode) {
    int column = model.column(0, 1, 0, /*whole=*/true);
    used.emplace_back(column, 1);
    Terms row = terms;
    row.emplace_back(column, -double(terms.size()));
    model.row(row, -LinearModel::infinity, 0);
  }
  model.row(used, -LinearModel::infinity, 0);
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
