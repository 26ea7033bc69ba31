#include "search/jobs/AlikeSites.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heterplan::jobs {

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
           (workers < job.minWorkers || samples < limits.samples * (1 - SlotOptions::rounding)))
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

SlotOptions::Spread SlotOptions::walk(const SlotState &state, const AlikeSites &alike,
                                      const Reach &reach) const {
  return SpreadWalk(problem, job, state, alike, reach, limits.share).walk(limits);
}

} // namespace heterplan::jobs
