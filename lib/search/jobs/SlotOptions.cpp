#include "search/jobs/SlotOptions.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-10; // an order below what makes a job done
} // namespace

int64_t fittingTogether(const Problem &problem, int index, int site, llvm::ArrayRef<double> free,
                        int64_t limit) {
  const Job &job = problem.job(index);
  auto fits = [&](int64_t workers) {
    double servers = double(job.serversFor(workers));
    bool isIn = true;
    for (int r = 0; r < resources; ++r) {
      double amount = double(workers) * job.worker[r] + servers * job.server[r];
      isIn &= amount <= free[problem.machines().sites()[site].resource[r]];
      problem.forQuotas(index, site, r, [&](int quota) { isIn &= amount <= free[quota]; });
    }
    return isIn;
  };
  int64_t low = 0, high = fitting(problem, index, job.worker, site, free, limit);
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    fits(middle) ? low = middle : high = middle - 1;
  }
  return low;
}

namespace {
/// The cost of a unit of resource `r` of `job` at `site`, with that of its quotas.
double unitCost(const Problem &problem, int job, int site, int r, llvm::ArrayRef<double> cost) {
  double sum = cost[problem.machines().sites()[site].resource[r]];
  problem.forQuotas(job, site, r, [&](int quota) {
    if (size_t(quota) < cost.size())
      sum += cost[quota];
  });
  return sum;
}
} // namespace

double costAt(const Problem &problem, int job, const Demand &demand, int site,
              llvm::ArrayRef<double> cost) {
  double sum = 0;
  for (int r = 0; r < resources; ++r)
    if (demand[r] > 0)
      sum += demand[r] / unitOf[r] * unitCost(problem, job, site, r, cost);
  return sum;
}

double costOfAmount(double amount, Resource resource, double cost, double growth) {
  if (amount <= 0)
    return 0;
  double linear = amount / unitOf[resource] * cost;
  double exponent = growth * amount;
  return exponent > 1e-9 ? linear * std::expm1(exponent) / exponent : linear;
}

double costOfRows(const Problem &problem, int index, const Rows &rows, const SlotState &state) {
  const Job &job = problem.job(index);
  std::map<int, double> amounts; // by resource: sites of a node share some
  double sum = 0;
  for (const Row &row : rows)
    for (int r = 0; r < resources; ++r) {
      double amount = double(row.workers) * job.worker[r] + double(row.servers) * job.server[r];
      amounts[problem.machines().sites()[row.site].resource[r]] += amount;
      problem.forQuotas(index, row.site, r, [&](int quota) { // whose costs do not grow
        if (size_t(quota) < state.cost.size())
          sum += amount / unitOf[r] * state.cost[quota];
      });
    }
  for (auto [resource, amount] : amounts)
    sum += costOfAmount(amount, problem.machines().resourceOf(resource), state.cost[resource],
                        state.growth.empty() ? 0 : state.growth[resource]);
  return sum;
}

int64_t fitting(const Problem &problem, int job, const Demand &demand, int site,
                llvm::ArrayRef<double> free, int64_t limit) {
  auto most = double(limit);
  for (int r = 0; r < resources; ++r)
    if (demand[r] > 0) {
      double left = free[problem.machines().sites()[site].resource[r]];
      problem.forQuotas(job, site, r, [&](int quota) { left = std::min(left, free[quota]); });
      most = std::min(most, std::floor(left / demand[r]));
    }
  return static_cast<int64_t>(std::max(most, 0.0));
}

bool isWithin(const Problem &problem, int job, const Rows &rows, llvm::ArrayRef<double> free) {
  bool holds = true;
  for (const Row &row : rows)
    for (int r = 0; r < resources; ++r) {
      holds &= free[problem.machines().sites()[row.site].resource[r]] >= 0;
      problem.forQuotas(job, row.site, r, [&](int quota) { holds &= free[quota] >= 0; });
    }
  return holds;
}

int64_t workersNeeded(double samples, double each) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(samples / each * (1 - rounding))));
}

/// Walks from the cheapest sites on and notes the steps.
class SpreadWalk {
public:
  SpreadWalk(const Problem &problem, int index, const SlotState &state,
             const SlotOptions::Reach &reach, double share)
      : problem(problem), index(index), job(problem.job(index)), free(state.free.vec()),
        cost(state.cost.vec()), growth(state.growth), reach(reach), share(share),
        mostNodes(problem.mostNodes(index)), bandwidth(problem.machines().network(reach.zone)) {
    std::vector<Candidate> workers, servers;
    if (reach.order == Order::Fullest)
      room.resize(problem.machines().sites().size());
    for (int site = 0; site < int(problem.machines().sites().size()); ++site) {
      if (reach.zone >= 0 && !reach.wholeCluster && zoneOf(site) != reach.zone)
        continue;
      int64_t fits = 0;
      if (problem.takesWorkers(index, site) &&
          (reach.type < 0 || problem.typeAt(index, site) == reach.type))
        fits = fitting(problem, index, job.worker, site, free, job.batch);
      if (!room.empty())
        room[site] = double(fits);
      if (fits > 0)
        workers.push_back({workerKey(site), false, fits, site});
      // Servers that need nothing are with the workers.
      if (isFree(job.server) && fits > 0)
        servers.push_back({workerKey(site), false, fits, site});
      else if (!isFree(job.server) && problem.takesServers(index, site) &&
               fitting(problem, index, job.server, site, free, 1) > 0)
        servers.push_back({serverKey(site), fits > 0, fits, site});
    }
    workerSites = Queue({}, std::move(workers));
    serverSites = Queue({}, std::move(servers));
  }

  SlotOptions::Spread walk(const SlotLimits &limits) {
    while (workers < limits.workers &&
           (workers < job.minWorkers || samples < limits.samples * (1 - rounding)))
      if (!placeServers() || !placeWorkers(limits))
        break;
    while (!steps.empty() && steps.back().workers == 0)
      steps.pop_back();
    return std::move(steps);
  }

private:
  struct Candidate {
    double key;    // cost of a sample, or of a server
    bool isWanted; // by workers, where servers would be in their way
    int64_t room;  // workers that fit: the fullest nodes are filled first
    int site;
    /// The least on top of a queue.
    bool operator<(const Candidate &other) const {
      return std::tie(key, isWanted, room, site) >
             std::tie(other.key, other.isWanted, other.room, other.site);
    }
  };
  using Order = SlotOptions::Order;
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::less<Candidate>>;

  int zoneOf(int site) const {
    return problem.machines().nodes()[problem.machines().sites()[site].node].zone;
  }
  double samplesAt(int site) const {
    return share * problem.samplesOfWorker(index, problem.machines().sites()[site].kind, bandwidth);
  }
  double workerKey(int site) const {
    double each = samplesAt(site);
    return reach.order == Order::Fullest   ? -room[site]
           : reach.order == Order::Fastest ? -each
                                           : costAt(problem, index, job.worker, site, cost) / each;
  }
  /// Whether a row there keeps the limit on nodes.
  bool isWithin(int site) const {
    return int(usedNodes.size()) < mostNodes ||
           llvm::is_contained(usedNodes, problem.machines().sites()[site].node);
  }
  static bool isFree(const Demand &demand) {
    return llvm::all_of(demand, [](double each) { return each == 0; });
  }
  double serverKey(int site) const {
    return isFree(job.server) ? workerKey(site) : costAt(problem, index, job.server, site, cost);
  }

  /// The cheapest site with room for `demand`, at its present cost; -1: none. It stays queued.
  template <typename Key> int cheapest(Queue &sites, const Demand &demand, Key key) {
    while (!sites.empty()) {
      Candidate top = sites.top();
      sites.pop();
      if (!isWithin(top.site) || fitting(problem, index, demand, top.site, free, 1) == 0)
        continue;
      top.key = key(top.site); // costs only rise
      bool isCheapest = sites.empty() || !(top < sites.top());
      sites.push(top);
      if (isCheapest)
        return top.site;
    }
    return -1;
  }

  /// How many are placed before costs are looked at again.
  int64_t chunk(const Demand &demand, int site) const {
    constexpr double mostGrowth = 0.25;
    double exponent = 0;
    for (int r = 0; r < resources && !growth.empty(); ++r)
      if (demand[r] > 0)
        exponent =
            std::max(exponent, demand[r] * growth[problem.machines().sites()[site].resource[r]]);
    return exponent > 0 ? std::max<int64_t>(1, int64_t(std::min(mostGrowth / exponent, 1e9)))
                        : std::numeric_limits<int64_t>::max();
  }

  /// Servers for one more worker.
  bool placeServers() {
    int64_t missing = job.serversFor(workers + 1) - servers;
    while (missing > 0) {
      int site = cheapest(serverSites, job.server, [&](int site) { return serverKey(site); });
      if (site < 0)
        return false;
      int64_t count = fitting(problem, index, job.server, site, free,
                              std::min(missing, chunk(job.server, site)));
      note({site, 0, count}, job.server, 0);
      servers += count;
      missing -= count;
    }
    return true;
  }

  bool placeWorkers(const SlotLimits &limits) {
    int site = cheapest(workerSites, job.worker, [&](int site) { return workerKey(site); });
    if (site < 0)
      return false;
    double each = samplesAt(site);
    int64_t wanted = std::max(workersNeeded(std::max(limits.samples - samples, 0.0), each),
                              job.minWorkers - workers);
    int64_t limit = std::min({job.workersFor(servers) - workers, limits.workers - workers, wanted,
                              chunk(job.worker, site)});
    int64_t count = fitting(problem, index, job.worker, site, free, limit);
    note({site, count, 0}, job.worker, each);
    workers += count;
    return true;
  }

  void note(SlotOptions::Step step, const Demand &demand, double each) {
    int64_t count = step.workers + step.servers;
    step.costBefore = spent;
    step.samplesBefore = samples;
    step.workersBefore = workers;
    step.samples = each;
    step.mayEnd = liesApart(step.site) && workers + step.workers >= job.minWorkers;
    if (mostNodes < int(problem.machines().nodes().size()))
      if (int node = problem.machines().sites()[step.site].node;
          !llvm::is_contained(usedNodes, node))
        usedNodes.push_back(node);
    double paid = take(step.site, demand, double(count));
    step.cost = paid / double(count);
    spent += paid;
    samples += double(step.workers) * each;
    steps.push_back(step);
  }

  /// Takes `count` of `demand`, whose cost it returns; costs rise.
  double take(int site, const Demand &demand, double count) {
    double paid = 0;
    for (int r = 0; r < resources; ++r) {
      int resource = problem.machines().sites()[site].resource[r];
      double amount = count * demand[r];
      if (amount <= 0)
        continue;
      double rise = growth.empty() ? 0 : growth[resource];
      paid += costOfAmount(amount, Resource(r), cost[resource], rise);
      cost[resource] *= std::exp(rise * amount);
      free[resource] -= amount;
      problem.forQuotas(index, site, r, [&](int quota) {
        free[quota] -= amount;
        if (size_t(quota) < cost.size())
          paid += amount / unitOf[r] * cost[quota];
      });
    }
    return paid;
  }

  /// Whether the sites so far are on several nodes, and in several zones where that was assumed.
  bool liesApart(int site) {
    int node = problem.machines().sites()[site].node;
    if (steps.empty())
      firstNode = node, firstZone = zoneOf(site);
    severalNodes |= node != firstNode;
    severalZones |= zoneOf(site) != firstZone;
    return reach.wholeCluster ? severalZones : severalNodes;
  }

  const Problem &problem;
  int index;
  const Job &job;
  std::vector<double> free, cost;
  llvm::ArrayRef<double> growth;
  SlotOptions::Reach reach;
  double share;
  int mostNodes;
  BytesPerSecond bandwidth;
  std::vector<double> room;   // by site, at first; of Order::Fullest only
  std::vector<int> usedNodes; // where their number is limited
  Queue workerSites, serverSites;
  int64_t workers = 0, servers = 0;
  double samples = 0, spent = 0;
  int firstNode = -1, firstZone = -1;
  bool severalNodes = false, severalZones = false;
  SlotOptions::Spread steps;
};

SlotOptions::SlotOptions(const Problem &problem, int job, const SlotState &state,
                         const SlotLimits &given, Locality locality)
    : problem(problem), job(job), limits(given) {
  limits.workers =
      std::max(std::min(limits.workers, problem.job(job).batch), problem.job(job).minWorkers);
  // Servers that need nothing are with the workers, which need no second node then.
  bool areServersFree =
      llvm::all_of(problem.job(job).server, [](double each) { return each == 0; });
  if (locality == Locality::Both || problem.machines().nodes().size() == 1 || areServersFree)
    findInternal(state);
  if (problem.machines().nodes().size() == 1 || problem.mostNodes(job) == 1)
    return;
  bool mayMix = !*problem.job(job).sameType;
  for (int type = mayMix ? -1 : 0; type < (mayMix ? 0 : problem.types(job)); ++type)
    findSpreads(state, type);
}

void SlotOptions::findSpreads(const SlotState &state, int type) {
  int zones = static_cast<int>(problem.machines().cluster().zones.size());
  bool isUnequal = problem.hasUnequalSites(job);
  bool isPacked = problem.job(job).maxNodes > 0;
  for (Order order : {Order::Cheapest, Order::Fastest, Order::Fullest}) {
    if ((order == Order::Fastest && !isUnequal) || (order == Order::Fullest && !isPacked))
      continue;
    for (int zone = zones > 1 ? -1 : zones - 1; zone < std::max(zones, 0); ++zone) {
      Reach reach{zone, zones > 1 && zone < 0, type, order};
      Spread spread = SpreadWalk(problem, job, state, reach, limits.share).walk(limits);
      if (!spread.empty())
        spreads.push_back(std::move(spread));
      if (zones <= 1)
        break;
    }
  }
}

void SlotOptions::findInternal(const SlotState &state) {
  const Job &facts = problem.job(job);
  std::vector<std::pair<double, Internal>> found;
  for (int site = 0; site < int(problem.machines().sites().size()); ++site) {
    if (!problem.takesWorkers(job, site))
      continue;
    Internal option;
    option.site = site;
    option.most = fittingTogether(problem, job, site, state.free, limits.workers);
    if (option.most < std::max<int64_t>(1, facts.minWorkers))
      continue;
    const Site &place = problem.machines().sites()[site];
    option.samples =
        limits.share *
        problem.samplesOfWorker(job, place.kind, problem.machines().nodes()[place.node].link);
    for (int r = 0; r < resources; ++r) {
      option.cost[r] = unitCost(problem, job, site, r, state.cost);
      option.growth[r] = state.growth.empty() ? 0 : state.growth[place.resource[r]];
    }
    double each = costAt(problem, job, facts.worker, site, state.cost);
    if (facts.server[Cpu] + facts.server[Memory] + facts.server[Gpu] > 0)
      each += costAt(problem, job, facts.server, site, state.cost) / facts.workersPerServer;
    found.emplace_back(each / option.samples, option);
  }
  // Of equal ones the fullest node that has room: large free blocks stay whole.
  std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) {
    return std::tie(a.first, a.second.most) < std::tie(b.first, b.second.most);
  });
  double reached = 0;
  for (const auto &[each, option] : found)
    if (double samples = double(option.most) * option.samples; samples > reached) {
      internals.push_back(option);
      reached = samples;
    }
}

double SlotOptions::most() const {
  double most = 0;
  for (const Internal &option : internals)
    most = std::max(most, double(option.most) * option.samples);
  for (const Spread &spread : spreads)
    if (!spread.empty() && spread.back().mayEnd)
      most = std::max(most, spread.back().samplesBefore +
                                double(spread.back().workers) * spread.back().samples);
  return std::min(most, limits.samples);
}

void SlotOptions::tryInternal(const Internal &option, double samples, Best &best) const {
  const Job &facts = problem.job(job);
  int64_t workers = std::max(workersNeeded(samples, option.samples), facts.minWorkers);
  if (workers > option.most)
    return;
  auto servers = double(facts.serversFor(workers));
  double cost = 0;
  for (int r = 0; r < resources; ++r)
    cost += costOfAmount(double(workers) * facts.worker[r] + servers * facts.server[r], Resource(r),
                         option.cost[r], option.growth[r]);
  if (cost < best.cost)
    best = {cost, &option, nullptr, 0, workers};
}

void SlotOptions::trySpread(const Spread &spread, double samples, Best &best) const {
  double enough = samples * (1 - rounding);
  auto reaches = [&](const Step &step) {
    return step.samplesBefore + double(step.workers) * step.samples >= enough;
  };
  auto step = std::partition_point(spread.begin(), spread.end(),
                                   [&](const Step &step) { return !reaches(step); });
  while (step != spread.end() && !(step->mayEnd && step->workers > 0))
    ++step;
  if (step == spread.end())
    return;
  int64_t needed =
      std::max(workersNeeded(std::max(samples - step->samplesBefore, 0.0), step->samples),
               problem.job(job).minWorkers - step->workersBefore);
  int64_t workers = std::min(step->workers, needed);
  double cost = step->costBefore + double(workers) * step->cost;
  if (cost < best.cost)
    best = {cost, nullptr, &spread, size_t(step - spread.begin()) + 1, workers};
}

SlotOptions::Best SlotOptions::best(double samples) const {
  Best best{infinity};
  for (const Internal &option : internals)
    tryInternal(option, samples, best);
  for (const Spread &spread : spreads)
    trySpread(spread, samples, best);
  return best;
}

double SlotOptions::cost(double samples) const { return best(samples).cost; }

SlotPlan SlotOptions::plan(double samples) const {
  Best found = best(samples);
  SlotPlan plan;
  plan.cost = found.cost;
  if (found.internal)
    plan.rows.push_back(
        {found.internal->site, found.workers, problem.job(job).serversFor(found.workers)});
  for (size_t i = 0; i < found.steps; ++i) {
    const Step &step = (*found.spread)[i];
    auto row = llvm::find_if(plan.rows, [&](const Row &row) { return row.site == step.site; });
    if (row == plan.rows.end())
      row = plan.rows.insert(row, Row{step.site, 0, 0});
    row->workers += i + 1 == found.steps ? found.workers : step.workers;
    row->servers += step.servers;
  }
  llvm::sort(plan.rows, [](const Row &a, const Row &b) { return a.site < b.site; });
  plan.samples = limits.share * problem.samplesOf(job, plan.rows);
  return plan;
}

} // namespace heterplan::jobs
