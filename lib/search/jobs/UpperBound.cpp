#include "search/jobs/UpperBound.h"

#include "search/jobs/JobWays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Sums over the nodes of a group: its resources, in the order of one node.
struct Group {
  int firstNode = 0, firstResource = 0, resources = 0, nodes = 0;
  int offset = 0; // of its first multiplier in a slot
};

class Relaxation {
public:
  explicit Relaxation(const Problem &given) : Relaxation(given.withChoicesApart()) {}
  explicit Relaxation(std::pair<Problem, std::vector<int>> apart)
      : problem(std::move(apart.first)), origins(std::move(apart.second)) {
    addGroups();
    firstQuota = int(capacity.size());
    for (const Quota &quota : problem.quotas())
      capacity.push_back(quota.amount);
    for (int job = 0; job < problem.size(); ++job)
      jobs.push_back(waysOf(problem, job));
    gradient.assign(problem.slots(), std::vector<double>(capacity.size()));
  }

  /// Multipliers by slot and resource of a group: of all that the group has for one slot.
  using Multipliers = std::vector<std::vector<double>>;
  Multipliers none() const {
    return Multipliers(problem.slots(), std::vector<double>(capacity.size()));
  }

  /// The bound that `multipliers` give; sets the gradient.
  double bound(const Multipliers &multipliers) {
    double sum = 0;
    for (int slot = 0; slot < problem.slots(); ++slot)
      for (size_t i = 0; i < capacity.size(); ++i) {
        sum += multipliers[slot][i];
        gradient[slot][i] = capacity[i] > 0 && std::isfinite(capacity[i]) ? 1 : 0;
      }
    for (int job = 0; job < problem.size();)
      sum += bestOfChoices(job, multipliers);
    return sum;
  }
  const Multipliers &slope() const { return gradient; }

  /// `multipliers` as costs of a unit of each resource of each node.
  std::vector<std::vector<double>> costs(const Multipliers &multipliers) const {
    const Machines &machines = problem.machines();
    std::vector<std::vector<double>> result(problem.slots(),
                                            std::vector<double>(problem.capacity().size()));
    for (size_t i = 0; i < problem.quotas().size(); ++i)
      for (int slot = 0; slot < problem.slots() && problem.quotas()[i].amount > 0; ++slot)
        result[slot][problem.firstQuota() + i] = multipliers[slot][firstQuota + i] /
                                                 problem.quotas()[i].amount *
                                                 unitOf[problem.quotas()[i].resource];
    for (size_t resource = 0; resource < machines.capacity().size(); ++resource) {
      const Machine &node = machines.nodes()[machines.nodeOf(int(resource))];
      const Group &group = groups[node.group];
      size_t inNode = resource - size_t(machines.sites()[node.firstSite].resource[Cpu]);
      double all = capacity[group.offset + inNode];
      double units = unitOf[machines.resourceOf(int(resource))];
      for (int slot = 0; slot < problem.slots() && all > 0; ++slot)
        result[slot][resource] = multipliers[slot][group.offset + inNode] / all * units;
    }
    return result;
  }

private:
  struct Offer { // work of a slot at one cost
    double cost = 0, samples = 0;
    int slot = 0;
    bool operator<(const Offer &other) const {
      return std::tie(cost, slot) < std::tie(other.cost, other.slot);
    }
  };
  /// A use of a slot: of one internal way, or of the cheapest of the other ways up to `samples`.
  struct Use {
    double samples = 0, cost = 0;
    int internal = -1; // index of the way
    bool operator<(const Use &other) const {
      return std::tie(samples, cost) < std::tie(other.samples, other.cost);
    }
  };
  /// The uses of a slot that cost least: all other uses cost as much as a mix of two of these.
  struct Curve {
    std::vector<Use> uses;
    std::vector<std::pair<double, int>> others; // cost of a sample and way, the cheapest first
  };

  void addGroups() {
    const Machines &machines = problem.machines();
    std::vector<int> first; // resource of each node
    for (size_t i = 0; i < machines.capacity().size(); ++i)
      if (i == 0 || machines.nodeOf(int(i)) != machines.nodeOf(int(i) - 1))
        first.push_back(int(i));
    first.push_back(int(machines.capacity().size()));
    for (size_t node = 0; node < machines.nodes().size(); ++node) {
      if (node == 0 || machines.nodes()[node].group != machines.nodes()[node - 1].group) {
        Group group{int(node), first[node], first[node + 1] - first[node], 0, int(capacity.size())};
        capacity.resize(capacity.size() + group.resources);
        groups.push_back(group);
      }
      ++groups.back().nodes;
      for (int r = 0; r < groups.back().resources; ++r)
        capacity[groups.back().offset + r] += machines.capacity()[first[node] + r];
    }
  }

  const Group &groupOf(const Site &site) const {
    return groups[problem.machines().nodes()[site.node].group];
  }

  /// Calls `use` with each index of `capacity` against which `resource` of a job counts at sites of
  /// `kind`.
  template <typename Use> void forLimits(int job, int kind, int resource, Use use) const {
    int example = problem.machines().exampleOf(kind);
    const Site &site = problem.machines().sites()[example];
    const int at[] = {0, 1, gpuOf(site)};
    use(groupOf(site).offset + at[resource]);
    problem.forQuotas(job, example, resource,
                      [&](int quota) { use(firstQuota + quota - problem.firstQuota()); });
  }

  /// Multiplier of one amount of `demand` of a job at sites of `kind`.
  double costIn(int job, const Demand &demand, int kind,
                const std::vector<double> &multipliers) const {
    double sum = 0;
    for (int r = 0; r < resources; ++r)
      if (demand[r] > 0)
        forLimits(job, kind, r, [&](int limit) {
          sum += capacity[limit] > 0 ? demand[r] / capacity[limit] * multipliers[limit] : infinity;
        });
    return sum;
  }

  int gpuOf(const Site &site) const { return site.resource[Gpu] - site.resource[Cpu]; }

  /// The least cost of a server and the kind of site: (cost, kind).
  std::pair<double, int> cheapestServer(int job, const std::vector<double> &multipliers) const {
    std::pair<double, int> best{infinity, -1};
    for (int kind = 0; kind < problem.machines().kinds(); ++kind) {
      double cost = costIn(job, problem.job(job).server, kind, multipliers);
      if (cost < best.first)
        best = {cost, kind};
    }
    return best;
  }

  /// The cost of a sample in `way`.
  double costOf(int job, const Way &way, double server,
                const std::vector<double> &multipliers) const {
    double worker = costIn(job, problem.job(job).worker, way.kind, multipliers);
    return (worker + server) / way.samples;
  }

  /// Makes `curve` the uses of a slot that cost least.
  void draw(int index, const std::vector<double> &multipliers, Curve &curve) const {
    const Job &job = problem.job(index);
    const Ways &own = jobs[index];
    double server = cheapestServer(index, multipliers).first / job.workersPerServer;
    curve.uses.assign(1, Use{});
    curve.others.clear();
    for (size_t i = 0; i < own.ways.size(); ++i) {
      const Way &way = own.ways[i];
      double cost = costOf(index, way, server, multipliers);
      if (!std::isfinite(cost))
        continue;
      if (way.isInternal && !own.addsUp)
        curve.uses.push_back({way.most, way.most * cost, int(i)});
      else
        curve.others.emplace_back(cost, int(i));
    }
    addOthers(own, curve);
    keepHull(curve.uses);
  }

  static void addOthers(const Ways &own, Curve &curve) {
    std::sort(curve.others.begin(), curve.others.end());
    double left = own.addsUp ? own.most : own.mostOutside;
    Use use;
    for (auto [cost, way] : curve.others) {
      double samples = std::min(own.ways[way].most, left);
      if (samples <= 0)
        break;
      left -= samples;
      use.samples += samples;
      use.cost += samples * cost;
      curve.uses.push_back(use);
    }
  }

  /// Leaves the lower convex hull of `uses`.
  static void keepHull(std::vector<Use> &uses) {
    std::sort(uses.begin(), uses.end());
    size_t kept = 0;
    for (const Use &use : uses) {
      if (kept > 0 && use.samples <= uses[kept - 1].samples)
        continue;
      while (kept >= 2 && isAbove(uses[kept - 2], uses[kept - 1], use))
        --kept;
      uses[kept++] = use;
    }
    uses.resize(kept);
  }

  /// Whether a mix of `low` and `high` costs no more than `middle`.
  static bool isAbove(const Use &low, const Use &middle, const Use &high) {
    return (middle.cost - low.cost) * (high.samples - middle.samples) >=
           (high.cost - middle.cost) * (middle.samples - low.samples);
  }

  /// The work of a slot, the cheapest first.
  void offer(int index, int slot, const std::vector<double> &multipliers,
             std::vector<Offer> &offers) {
    draw(index, multipliers, scratch);
    offers.clear();
    for (size_t i = 1; i < scratch.uses.size(); ++i) {
      const Use &low = scratch.uses[i - 1], &high = scratch.uses[i];
      double samples = high.samples - low.samples;
      offers.push_back({(high.cost - low.cost) / samples, samples, slot});
    }
  }

  /// The cheapest work up to a slot that is enough; the dearest on top.
  struct Chosen {
    std::priority_queue<Offer> offers;
    double samples = 0, cost = 0;

    void add(const Offer &offer, double enough) {
      if (offer.samples <= 0 || (samples >= enough && offer.cost >= offers.top().cost))
        return;
      offers.push(offer);
      samples += offer.samples;
      cost += offer.samples * offer.cost;
      while (samples - offers.top().samples >= enough) {
        samples -= offers.top().samples;
        cost -= offers.top().samples * offers.top().cost;
        offers.pop();
      }
    }
    /// The cost of exactly `enough`.
    double costOf(double enough) const {
      return std::max(0.0, cost - (samples - enough) * offers.top().cost);
    }
  };

  /// The most that a job is worth beyond what it pays, with any choice of its workers; the use of
  /// the best one is taken off the gradient. `index` becomes that of the next job.
  double bestOfChoices(int &index, const Multipliers &multipliers) {
    Best best;
    int chosen = index;
    for (int job = origins[index]; index < problem.size() && origins[index] == job; ++index)
      if (Best own = bestOf(index, multipliers); own.value > best.value) {
        best = own;
        chosen = index;
      }
    if (best.end >= 0)
      use(chosen, best.end, enoughOf(chosen), multipliers);
    return best.value;
  }

  /// The samples that a schedule of the job trains at least, with those that its start costs.
  double enoughOf(int index) const {
    return problem.job(index).work() * (1 - 1e-8) + jobs[index].lost;
  }

  struct Best {
    double value = 0;
    int end = -1;
  };

  /// The most that the job is worth beyond what it pays, and the slot in which it ends then.
  Best bestOf(int index, const Multipliers &multipliers) {
    const Job &job = problem.job(index);
    double enough = enoughOf(index), best = 0;
    int end = -1;
    Chosen chosen;
    std::vector<Offer> offers;
    for (int slot = problem.release(index); slot <= problem.lastSlot(index); ++slot) {
      double utility = job.utility.at(slot - job.arrival);
      if (utility <= best)
        break; // it never rises
      offer(index, slot, multipliers[slot], offers);
      for (const Offer &each : offers)
        chosen.add(each, enough);
      if (chosen.samples < enough)
        continue;
      if (double value = utility - chosen.costOf(enough); value > best) {
        best = value;
        end = slot;
      }
    }
    return {best, end};
  }

  void use(int index, int end, double enough, const Multipliers &multipliers) {
    Chosen chosen;
    std::vector<Offer> offers;
    for (int slot = problem.release(index); slot <= end; ++slot) {
      offer(index, slot, multipliers[slot], offers);
      for (const Offer &each : offers)
        chosen.add(each, enough);
    }
    std::map<int, double> samples; // by slot
    double surplus = chosen.samples - enough;
    for (; !chosen.offers.empty(); chosen.offers.pop(), surplus = 0)
      samples[chosen.offers.top().slot] += chosen.offers.top().samples - surplus;
    for (auto [slot, each] : samples)
      useSlot(index, slot, each, multipliers[slot]);
  }

  /// `samples` at the least cost: a mix of two uses.
  void useSlot(int index, int slot, double samples, const std::vector<double> &multipliers) {
    draw(index, multipliers, scratch);
    int serverKind = cheapestServer(index, multipliers).second;
    size_t high = 1;
    while (high + 1 < scratch.uses.size() && scratch.uses[high].samples < samples)
      ++high;
    if (high >= scratch.uses.size())
      return;
    const Use &from = scratch.uses[high - 1], &to = scratch.uses[high];
    double part = std::min(1.0, (samples - from.samples) / (to.samples - from.samples));
    addUse(index, slot, from, 1 - part, serverKind);
    addUse(index, slot, to, part, serverKind);
  }

  /// Takes `share` of `use` off the gradient.
  void addUse(int index, int slot, const Use &use, double share, int serverKind) {
    const Ways &own = jobs[index];
    if (use.internal >= 0)
      return useWay(index, slot, own.ways[use.internal], use.samples * share, serverKind);
    double left = use.samples;
    for (auto [cost, way] : scratch.others) {
      double samples = std::min(left, own.ways[way].most);
      left -= samples;
      if (samples > 0)
        useWay(index, slot, own.ways[way], samples * share, serverKind);
    }
  }

  void useWay(int index, int slot, const Way &way, double samples, int serverKind) {
    const Job &job = problem.job(index);
    double workers = samples / way.samples;
    useAt(index, job.worker, way.kind, workers, slot);
    useAt(index, job.server, serverKind, workers / job.workersPerServer, slot);
  }

  void useAt(int job, const Demand &demand, int kind, double count, int slot) {
    for (int r = 0; r < resources; ++r)
      if (demand[r] > 0)
        forLimits(job, kind, r,
                  [&](int limit) { gradient[slot][limit] -= demand[r] * count / capacity[limit]; });
  }

  Problem problem;          // with a job for each choice of each job
  std::vector<int> origins; // the job of each of them
  std::vector<Group> groups;
  std::vector<double> capacity; // by resource of a group, then by quota
  int firstQuota = 0;           // in `capacity`
  std::vector<Ways> jobs;
  Multipliers gradient;
  Curve scratch;
};

double squaredNorm(const Relaxation::Multipliers &values) {
  double sum = 0;
  for (const auto &slot : values)
    for (double value : slot)
      sum += value * value;
  return sum;
}

/// Multipliers stay at 0 where the gradient would make them negative.
void project(const Relaxation::Multipliers &multipliers, Relaxation::Multipliers &gradient) {
  for (size_t slot = 0; slot < gradient.size(); ++slot)
    for (size_t i = 0; i < gradient[slot].size(); ++i)
      if (multipliers[slot][i] <= 0 && gradient[slot][i] > 0)
        gradient[slot][i] = 0;
}

void step(Relaxation::Multipliers &multipliers, const Relaxation::Multipliers &gradient,
          double length) {
  for (size_t slot = 0; slot < gradient.size(); ++slot)
    for (size_t i = 0; i < gradient[slot].size(); ++i)
      multipliers[slot][i] = std::max(0.0, multipliers[slot][i] - length * gradient[slot][i]);
}
} // namespace

double utilityUpperBound(const Problem &problem, const BoundOptions &options) {
  return utilityBound(problem, options).value;
}

UtilityBound utilityBound(const Problem &problem, const BoundOptions &options) {
  constexpr int patience = 8;
  Relaxation relaxation(problem);
  Relaxation::Multipliers at = relaxation.none(), bestAt = at;
  double best = infinity, length = 0.5;
  double steps = options.work /
                 (double(problem.size()) * problem.slots() * problem.machines().kinds() * 10 + 1);
  int idle = 0;
  for (int i = 0; i < std::clamp(int(std::min(steps, 1e6)), 20, options.steps) && length > 1e-4;
       ++i) {
    double bound = relaxation.bound(at);
    idle = bound < best * (1 - 1e-5) ? 0 : idle + 1;
    if (bound < best) {
      best = bound;
      bestAt = at;
    }
    Relaxation::Multipliers gradient = relaxation.slope();
    if (idle > patience) {
      length /= 2;
      idle = 0;
      at = bestAt;
      relaxation.bound(at);
      gradient = relaxation.slope();
    }
    project(at, gradient);
    double norm = squaredNorm(gradient);
    if (norm <= 0 || bound <= 0)
      break;
    step(at, gradient, length * bound / norm);
  }
  return {best * (1 + 1e-9), relaxation.costs(bestAt)};
}

} // namespace heterplan::jobs
