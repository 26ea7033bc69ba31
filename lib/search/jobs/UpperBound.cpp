#include "search/jobs/UpperBound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A way of a job to have workers on one kind of site; without limits between kinds and slots.
struct Way {
  int kind = 0;
  bool isInternal = false; // its servers are on the same node
  double samples = 0;      // of one worker in a slot
  double most = 0;         // samples of all workers that fit
};

/// What a job may do in each slot: more than it really can.
struct Ways {
  std::vector<Way> ways;
  double most = 0; // samples of a slot
  double lost = 0; // samples at least, by the restart of the first slot
};

/// What is summed over the nodes of a group: its resources, in the order of one node.
struct Group {
  int firstNode = 0, firstResource = 0, resources = 0, nodes = 0;
  int offset = 0; // of its first multiplier in a slot
};

class Relaxation {
public:
  explicit Relaxation(const Problem &problem) : problem(problem) {
    addGroups();
    for (int job = 0; job < problem.size(); ++job)
      jobs.push_back(waysOf(job));
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
        gradient[slot][i] = capacity[i] > 0 ? 1 : 0;
      }
    for (int job = 0; job < problem.size(); ++job)
      sum += bestOf(job, multipliers);
    return sum;
  }
  const Multipliers &slope() const { return gradient; }

  /// `multipliers` as costs of a unit of each resource of each node.
  std::vector<std::vector<double>> costs(const Multipliers &multipliers) const {
    const Machines &machines = problem.machines();
    std::vector<std::vector<double>> result(problem.slots(),
                                            std::vector<double>(machines.capacity().size()));
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
    int slot = 0, way = 0;
    bool operator<(const Offer &other) const {
      return std::tie(cost, slot, way) < std::tie(other.cost, other.slot, other.way);
    }
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

  /// Whole workers that fit on each node of the group of `site`, and on the largest.
  std::pair<double, double> fitting(const Job &job, const Site &example) const {
    double sum = 0, largest = 0;
    for (const Site &site : problem.machines().sites()) {
      if (site.kind != example.kind)
        continue;
      double most = double(job.batch);
      for (int r = 0; r < resources; ++r)
        if (job.worker[r] > 0)
          most = std::min(
              most, std::floor(problem.machines().capacity()[site.resource[r]] / job.worker[r]));
      sum += most;
      largest = std::max(largest, most);
    }
    return {std::min({sum, double(job.batch), onMostNodes(job, largest)}), largest};
  }

  /// The most workers on the nodes that the job may have, if `largest` fit on one.
  double onMostNodes(const Job &job, double largest) const {
    return job.maxNodes > 0 ? job.maxNodes * largest : infinity;
  }

  Ways waysOf(int index) const {
    const Machines &machines = problem.machines();
    const Job &job = problem.job(index);
    Ways ways;
    std::vector<Fast> fastest;
    for (int kind = 0; kind < machines.kinds(); ++kind) {
      if (!std::isfinite(problem.sampleTime(index, kind).value()))
        continue;
      const Site &site = machines.sites()[machines.exampleOf(kind)];
      auto [all, onOne] = fitting(job, site);
      double inside = problem.samplesOfWorker(index, kind, machines.nodes()[site.node].link);
      double outside = problem.samplesOfWorker(index, kind, fastestNetwork());
      // GPUs of several types on one node work together over its link.
      bool mayMix = machines.nodes()[site.node].sites > 1 && !*job.sameType;
      if (onOne > 0 && (mayMix || onOne >= double(job.minWorkers)))
        ways.ways.push_back({kind, true, inside, onOne * inside});
      if (machines.nodes().size() > 1 && all > 0 && problem.mostNodes(index) > 1)
        ways.ways.push_back({kind, false, outside, all * outside});
      if (onOne >= double(job.minWorkers))
        ways.most = std::max(ways.most, onOne * inside);
      fastest.push_back({mayMix ? std::max(inside, outside) : outside, all, onOne,
                         problem.typeAt(index, machines.exampleOf(kind))});
    }
    if (machines.nodes().size() > 1 || machines.sites().size() > 1)
      ways.most = std::max(ways.most, mostOfTypes(index, fastest));
    if (ways.most == 0)
      ways.ways.clear(); // the job never has its least number of workers
    ways.lost = leastLost(index, ways.ways);
    return ways;
  }

  /// Workers of one kind of site.
  struct Fast {
    double samples = 0, workers = 0, onOne = 0;
    int type = 0;
    bool operator<(const Fast &other) const { return samples > other.samples; }
  };

  /// The most samples of workers of all types, or of one type if the job may not mix them.
  double mostOfTypes(int index, const std::vector<Fast> &all) const {
    const Job &job = problem.job(index);
    if (!*job.sameType)
      return mostOfAll(job, all);
    double most = 0;
    for (int type = 0; type < problem.types(index); ++type) {
      std::vector<Fast> own;
      llvm::copy_if(all, std::back_inserter(own),
                    [&](const Fast &each) { return each.type == type; });
      most = std::max(most, mostOfAll(job, own));
    }
    return most;
  }

  /// Samples of the fastest workers, at most one a sample of the batch and as many as the job's
  /// nodes hold; 0 if they are fewer than its least.
  double mostOfAll(const Job &job, std::vector<Fast> fastest) const {
    std::sort(fastest.begin(), fastest.end());
    double onNode = 0; // a node may have sites of several kinds
    for (const Fast &each : fastest)
      onNode += each.onOne;
    double left = std::min(double(job.batch), onMostNodes(job, onNode)), sum = 0, workers = 0;
    for (const Fast &each : fastest) {
      double count = std::min(left, each.workers);
      sum += count * each.samples;
      left -= count;
      workers += count;
    }
    return workers >= double(job.minWorkers) ? sum : 0;
  }

  /// Every job starts once, with its least number of workers or more.
  double leastLost(int index, const std::vector<Way> &ways) const {
    double slowest = infinity;
    for (const Way &way : ways)
      slowest = std::min(slowest, way.samples);
    const Machines &machines = problem.machines();
    for (int kind = 0; kind < machines.kinds() && !ways.empty(); ++kind) // over any network
      if (std::isfinite(problem.sampleTime(index, kind).value()))
        slowest = std::min(slowest, problem.samplesOfWorker(index, kind, slowestNetwork(kind)));
    double share = 1 - problem.restartShare(index);
    return ways.empty() ? 0 : share * slowest * double(problem.job(index).minWorkers) * (1 - 1e-9);
  }

  BytesPerSecond slowestNetwork(int kind) const {
    const Machines &machines = problem.machines();
    const Site &site = machines.sites()[machines.exampleOf(kind)];
    BytesPerSecond slowest = std::min(machines.nodes()[site.node].link, machines.network(-1));
    for (const Zone &zone : machines.cluster().zones)
      slowest = std::min(slowest, zone.network.bandwidth);
    return slowest;
  }

  BytesPerSecond fastestNetwork() const {
    BytesPerSecond fastest = problem.machines().network(-1);
    for (const Zone &zone : problem.machines().cluster().zones)
      fastest = std::max(fastest, zone.network.bandwidth);
    return fastest;
  }

  /// Multiplier of one amount of what `demand` takes in `group`; `gpu` is the index of its GPUs.
  double costIn(const Demand &demand, const Group &group, int gpu,
                const std::vector<double> &multipliers) const {
    double sum = 0;
    const int at[] = {0, 1, gpu};
    for (int r = 0; r < resources; ++r)
      if (demand[r] > 0) {
        double all = capacity[group.offset + at[r]];
        if (all <= 0)
          return infinity;
        sum += demand[r] / all * multipliers[group.offset + at[r]];
      }
    return sum;
  }

  int gpuOf(const Site &site) const { return site.resource[Gpu] - site.resource[Cpu]; }

  /// Where a server costs least: (cost, kind).
  std::pair<double, int> cheapestServer(const Job &job,
                                        const std::vector<double> &multipliers) const {
    std::pair<double, int> best{infinity, -1};
    for (int kind = 0; kind < problem.machines().kinds(); ++kind) {
      const Site &site = problem.machines().sites()[problem.machines().exampleOf(kind)];
      double cost = costIn(job.server, groupOf(site), gpuOf(site), multipliers);
      if (cost < best.first)
        best = {cost, kind};
    }
    return best;
  }

  /// The cheapest work of a slot, up to what the job can do in it.
  void offer(int index, int slot, const std::vector<double> &multipliers,
             std::vector<Offer> &offers) const {
    const Job &job = problem.job(index);
    double server = cheapestServer(job, multipliers).first / job.workersPerServer;
    offers.clear();
    for (size_t way = 0; way < jobs[index].ways.size(); ++way) {
      const Way &facts = jobs[index].ways[way];
      const Site &site = problem.machines().sites()[problem.machines().exampleOf(facts.kind)];
      double cost = costIn(job.worker, groupOf(site), gpuOf(site), multipliers) + server;
      if (std::isfinite(cost))
        offers.push_back({cost / facts.samples, facts.most, slot, int(way)});
    }
    std::sort(offers.begin(), offers.end());
    double left = jobs[index].most;
    for (Offer &offer : offers) {
      offer.samples = std::min(offer.samples, left);
      left -= offer.samples;
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
    /// Of exactly `enough`.
    double costOf(double enough) const {
      return std::max(0.0, cost - (samples - enough) * offers.top().cost);
    }
  };

  /// The most that the job is worth beyond what it pays, in whatever slot it ends; its use is taken
  /// off the gradient.
  double bestOf(int index, const Multipliers &multipliers) {
    const Job &job = problem.job(index);
    double enough = job.work() * (1 - 1e-8) + jobs[index].lost, best = 0;
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
    if (end >= 0)
      use(index, end, enough, multipliers);
    return best;
  }

  void use(int index, int end, double enough, const Multipliers &multipliers) {
    Chosen chosen;
    std::vector<Offer> offers;
    for (int slot = problem.release(index); slot <= end; ++slot) {
      offer(index, slot, multipliers[slot], offers);
      for (const Offer &each : offers)
        chosen.add(each, enough);
    }
    double surplus = chosen.samples - enough;
    for (; !chosen.offers.empty(); chosen.offers.pop(), surplus = 0) {
      const Offer &top = chosen.offers.top();
      useOffer(index, top, top.samples - surplus, multipliers[top.slot]);
    }
  }

  void useOffer(int index, const Offer &offer, double samples,
                const std::vector<double> &multipliers) {
    const Job &job = problem.job(index);
    const Way &way = jobs[index].ways[offer.way];
    double workers = samples / way.samples;
    useAt(job.worker, way.kind, workers, offer.slot);
    useAt(job.server, cheapestServer(job, multipliers).second, workers / job.workersPerServer,
          offer.slot);
  }

  void useAt(const Demand &demand, int kind, double count, int slot) {
    const Site &site = problem.machines().sites()[problem.machines().exampleOf(kind)];
    const Group &group = groupOf(site);
    const int at[] = {0, 1, gpuOf(site)};
    for (int r = 0; r < resources; ++r)
      if (demand[r] > 0)
        gradient[slot][group.offset + at[r]] -= demand[r] * count / capacity[group.offset + at[r]];
  }

  const Problem &problem;
  std::vector<Group> groups;
  std::vector<double> capacity; // by resource of a group
  std::vector<Ways> jobs;
  Multipliers gradient;
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
