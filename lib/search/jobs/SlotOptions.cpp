#include "search/jobs/SlotOptions.h"

#include "search/jobs/AlikeSites.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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
  llvm::SmallVector<std::pair<int, double>, 48> amounts; // by resource: sites of a node share some
  auto amountOf = [&](int resource) -> double & {
    auto at = amounts.end();
    while (at != amounts.begin() && std::prev(at)->first >= resource) // rows are mostly by site
      --at;
    if (at == amounts.end() || at->first != resource)
      at = amounts.insert(at, {resource, 0.0});
    return at->second;
  };
  double sum = 0;
  for (const Row &row : rows)
    for (int r = 0; r < resources; ++r) {
      double amount = double(row.workers) * job.worker[r] + double(row.servers) * job.server[r];
      amountOf(problem.machines().sites()[row.site].resource[r]) += amount;
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

namespace {
/// Costs that grow by e^x, for the latest x that was asked for: sites are mostly alike.
class Growing {
public:
  void set(double x) {
    if (x == exponent)
      return;
    exponent = x;
    factor = std::exp(x);
    more = std::expm1(x);
  }
  double power() const { return factor; }
  /// See costOfAmount(); `cost` is that without growth.
  double costOf(double cost) const { return exponent > 1e-9 ? cost * more / exponent : cost; }

private:
  double exponent = 0, factor = 1, more = 0;
};
} // namespace

/// Walks from the cheapest sites on and notes the steps.
class SpreadWalk {
public:
  SpreadWalk(const Problem &problem, int index, const SlotState &state, const AlikeSites &alike,
             const SlotOptions::Reach &reach, double share)
      : problem(problem), index(index), job(problem.job(index)), growth(state.growth), alike(alike),
        reach(reach), mostNodes(problem.mostNodes(index)), areServersFree(isFree(job.server)) {
    const Machines &machines = problem.machines();
    BytesPerSecond bandwidth = machines.network(reach.zone);
    for (int kind = 0; kind < machines.kinds(); ++kind)
      samplesOfKind.push_back(share * problem.samplesOfWorker(index, kind, bandwidth));
    if (reach.order == Order::Fullest)
      room.resize(machines.sites().size());
    for (int site : alike.groups())
      if (reach.zone < 0 || reach.wholeCluster || zoneOf(site) == reach.zone)
        add(site, state);
    if (workerSites.isEmpty())
      return;
    free = state.free.vec();
    cost = state.cost.vec();
    workerSites.order();
    serverSites.order();
  }

  SlotOptions::Spread walk(const SlotLimits &limits) {
    while (workers < limits.workers &&
           (workers < job.minWorkers || samples < limits.samples * (1 - rounding)))
      if (workerSites.isEmpty() || !placeServers() || !placeWorkers(limits))
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
    bool isAlone; // otherwise the sites of its group that come after it have the same figures
    bool isBefore(const Candidate &other) const {
      if (key != other.key)
        return key < other.key;
      return std::tie(isWanted, room, site) < std::tie(other.isWanted, other.room, other.site);
    }
  };
  using Order = SlotOptions::Order;

  /// A binary heap of sites, the first one on top.
  class Queue {
  public:
    bool isEmpty() const { return heap.empty(); }
    Candidate &top() { return heap.front(); }
    void add(const Candidate &candidate) { heap.push_back(candidate); }
    void order() { std::make_heap(heap.begin(), heap.end(), isLater); }
    void push(const Candidate &candidate) {
      heap.push_back(candidate);
      std::push_heap(heap.begin(), heap.end(), isLater);
    }
    void pop() {
      heap.front() = heap.back();
      heap.pop_back();
      sink();
    }
    /// Moves the top, which comes later than it did, to its place.
    void sink() {
      size_t at = 0;
      for (size_t child = 1; child < heap.size(); child = 2 * at + 1) {
        if (child + 1 < heap.size() && heap[child + 1].isBefore(heap[child]))
          ++child;
        if (!heap[child].isBefore(heap[at]))
          return;
        std::swap(heap[at], heap[child]);
        at = child;
      }
    }

  private:
    static bool isLater(const Candidate &one, const Candidate &other) {
      return other.isBefore(one);
    }
    llvm::SmallVector<Candidate, 32> heap;
  };

  /// Queues the group of `site`.
  void add(int site, const SlotState &state) {
    bool mayWork = hasRoom(problem, job.worker, site, state.free);
    bool mayServe = !areServersFree && hasRoom(problem, job.server, site, state.free);
    if (!mayWork && !mayServe)
      return;
    int64_t fits = 0;
    if (mayWork && problem.takesWorkers(index, site) &&
        (reach.type < 0 || problem.typeAt(index, site) == reach.type))
      fits = fitting(problem, index, job.worker, site, state.free, job.batch);
    for (int each = site; each >= 0 && !room.empty(); each = alike.after(each))
      room[each] = double(fits);
    double key = fits > 0 ? workerKey(site, state.cost) : 0;
    if (fits > 0)
      workerSites.add({key, false, fits, site, false});
    // Servers that need nothing are with the workers.
    if (areServersFree && fits > 0)
      serverSites.add({key, false, fits, site, false});
    else if (mayServe && problem.takesServers(index, site) &&
             fitting(problem, index, job.server, site, state.free, 1) > 0)
      serverSites.add(
          {costAt(problem, index, job.server, site, state.cost), fits > 0, fits, site, false});
  }

  int zoneOf(int site) const {
    return problem.machines().nodes()[problem.machines().sites()[site].node].zone;
  }
  double samplesAt(int site) const { return samplesOfKind[problem.machines().sites()[site].kind]; }
  double workerKey(int site, llvm::ArrayRef<double> cost) const {
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
    return areServersFree ? workerKey(site, cost) : costAt(problem, index, job.server, site, cost);
  }
  bool fitsOne(const Demand &demand, int site) const {
    return hasRoom(problem, demand, site, free) &&
           (!problem.hasQuotas(index) || fitting(problem, index, demand, site, free, 1) > 0);
  }

  /// The cheapest site with room for `demand`, at its present cost; -1: none. It stays queued.
  template <typename Key> int cheapest(Queue &sites, const Demand &demand, Key key) {
    while (!sites.isEmpty()) {
      Candidate first = sites.top();
      bool isLeft = isWithin(first.site) && fitsOne(demand, first.site);
      double now = isLeft ? key(first.site) : 0;
      if (isLeft && now == first.key)
        return first.site;
      int after = first.isAlone ? -1 : alike.after(first.site);
      if (after >= 0) {
        sites.top().site = after;
        sites.sink();
      } else {
        sites.pop();
      }
      if (!isLeft)
        continue;
      first.key = now; // costs only rise
      first.isAlone = true;
      bool isCheapest = sites.isEmpty() || !sites.top().isBefore(first);
      sites.push(first);
      if (isCheapest)
        return first.site;
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
    int site = cheapest(workerSites, job.worker, [&](int site) { return workerKey(site, cost); });
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
    bool isServer = &demand == &job.server;
    for (int r = 0; r < resources; ++r) {
      int resource = problem.machines().sites()[site].resource[r];
      double amount = count * demand[r];
      if (amount <= 0)
        continue;
      double rise = growth.empty() ? 0 : growth[resource];
      Growing &growing = growths[isServer][r];
      growing.set(rise * amount);
      paid += growing.costOf(amount / unitOf[r] * cost[resource]);
      cost[resource] *= growing.power();
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
  const AlikeSites &alike;
  SlotOptions::Reach reach;
  int mostNodes;
  bool areServersFree;
  llvm::SmallVector<double, 8> samplesOfKind; // of a worker
  std::vector<double> room;                   // by site, at first; of Order::Fullest only
  std::vector<int> usedNodes;                 // where their number is limited
  std::array<std::array<Growing, resources>, 2> growths; // of workers and servers
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
  std::optional<AlikeSites> own;
  if (!state.alike)
    own.emplace(problem, state, job);
  const AlikeSites &alike = own ? *own : *state.alike;
  if (locality == Locality::Both || problem.machines().nodes().size() == 1 || areServersFree)
    findInternal(state, alike);
  if (problem.machines().nodes().size() == 1 || problem.mostNodes(job) == 1)
    return;
  bool mayMix = !*problem.job(job).sameType;
  for (int type = mayMix ? -1 : 0; type < (mayMix ? 0 : problem.types(job)); ++type)
    findSpreads(state, alike, type);
}

void SlotOptions::findSpreads(const SlotState &state, const AlikeSites &alike, int type) {
  int zones = static_cast<int>(problem.machines().cluster().zones.size());
  bool isUnequal = problem.hasUnequalSites(job);
  bool isPacked = problem.job(job).maxNodes > 0;
  for (Order order : {Order::Cheapest, Order::Fastest, Order::Fullest}) {
    if ((order == Order::Fastest && !isUnequal) || (order == Order::Fullest && !isPacked))
      continue;
    for (int zone = zones > 1 ? -1 : zones - 1; zone < std::max(zones, 0); ++zone) {
      Reach reach{zone, zones > 1 && zone < 0, type, order};
      Spread spread = SpreadWalk(problem, job, state, alike, reach, limits.share).walk(limits);
      if (!spread.empty())
        spreads.push_back(std::move(spread));
      if (zones <= 1)
        break;
    }
  }
}

void SlotOptions::findInternal(const SlotState &state, const AlikeSites &alike) {
  const Job &facts = problem.job(job);
  std::vector<std::pair<double, Internal>> found;
  for (int site : alike.groups()) { // of a group, the first is taken
    if (!problem.takesWorkers(job, site) || !hasRoom(problem, facts.worker, site, state.free))
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
