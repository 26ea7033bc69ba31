#include "search/jobs/JobWays.h"

#include "search/jobs/SlotOptions.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class WaysOfJob {
public:
  WaysOfJob(const Problem &problem, int index)
      : problem(problem), index(index), job(problem.job(index)) {}

  Ways find() const {
    Ways ways;
    std::vector<Fast> fastest;
    for (int kind = 0; kind < problem.machines().kinds(); ++kind)
      if (std::isfinite(problem.sampleTime(index, kind).value()))
        fastest.push_back(addKind(kind, ways));
    const Machines &machines = problem.machines();
    if (machines.nodes().size() > 1 || machines.sites().size() > 1)
      ways.mostOutside = mostOfTypes(fastest);
    ways.most = std::max(ways.most, ways.mostOutside);
    if (ways.most == 0)
      ways.ways.clear(); // the job never has its least number of workers
    ways.lost = leastLost(ways.ways);
    return ways;
  }

private:
  /// Workers of one kind of site.
  struct Fast {
    double samples = 0, workers = 0, onOne = 0;
    int type = 0;
    bool operator<(const Fast &other) const { return samples > other.samples; }
  };

  /// Adds the ways at sites of `kind`; the fastest workers there.
  Fast addKind(int kind, Ways &ways) const {
    const Machines &machines = problem.machines();
    const Site &site = machines.sites()[machines.exampleOf(kind)];
    const Machine &node = machines.nodes()[site.node];
    auto [all, onOne] = fitting(site);
    double inside = problem.samplesOfWorker(index, kind, node.link);
    double outside = problem.samplesOfWorker(index, kind, fastestNetwork());
    // GPUs of several types on one node work together over its link.
    bool mayMix = node.sites > 1 && !*job.sameType;
    ways.addsUp |= mayMix;
    // Servers of an internal slot are on the same node, which may have other sites for them.
    double internal = node.sites > 1 ? onOne : fittingWithServers(kind);
    if (internal > 0 && (mayMix || internal >= double(job.minWorkers)))
      ways.ways.push_back({kind, true, inside, internal * inside});
    if (machines.nodes().size() > 1 && all > 0 && problem.mostNodes(index) > 1)
      ways.ways.push_back({kind, false, outside, all * outside});
    if (internal >= double(job.minWorkers))
      ways.most = std::max(ways.most, internal * inside);
    return {mayMix ? std::max(inside, outside) : outside, all, onOne,
            problem.typeAt(index, machines.exampleOf(kind))};
  }

  /// The most workers on one node of `kind` that leave room for their servers there.
  double fittingWithServers(int kind) const {
    const Machines &machines = problem.machines();
    int64_t most = 0;
    for (int site = 0; site < int(machines.sites().size()); ++site)
      if (machines.sites()[site].kind == kind)
        most = std::max(most, fittingTogether(problem, index, site, problem.capacity(), job.batch));
    return double(most);
  }

  /// Whole workers that fit on each node of the group of `site`, and on the largest.
  std::pair<double, double> fitting(const Site &example) const {
    double sum = 0, largest = 0, inQuotas = infinity;
    int exampleAt = int(&example - problem.machines().sites().data());
    for (int r = 0; r < resources; ++r)
      problem.forQuotas(index, exampleAt, r, [&](int quota) {
        if (job.worker[r] > 0)
          inQuotas = std::min(inQuotas, std::floor(problem.capacity()[quota] / job.worker[r]));
      });
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
    largest = std::min(largest, inQuotas);
    return {std::min({sum, double(job.batch), onMostNodes(largest), inQuotas}), largest};
  }

  /// The most workers on the nodes that the job may have, if `largest` fit on one.
  double onMostNodes(double largest) const {
    return job.maxNodes > 0 ? job.maxNodes * largest : infinity;
  }

  /// The most samples of workers of all types, or of one type if the job may not mix them.
  double mostOfTypes(const std::vector<Fast> &all) const {
    if (!*job.sameType)
      return mostOfAll(all);
    double most = 0;
    for (int type = 0; type < problem.types(index); ++type) {
      std::vector<Fast> own;
      llvm::copy_if(all, std::back_inserter(own),
                    [&](const Fast &each) { return each.type == type; });
      most = std::max(most, mostOfAll(own));
    }
    return most;
  }

  /// Samples of the fastest workers, at most one a sample of the batch and as many as the job's
  /// nodes hold; 0 if they are fewer than its least.
  double mostOfAll(std::vector<Fast> fastest) const {
    std::sort(fastest.begin(), fastest.end());
    double onNode = 0; // a node may have sites of several kinds
    for (const Fast &each : fastest)
      onNode += each.onOne;
    double left = std::min(double(job.batch), onMostNodes(onNode)), sum = 0, workers = 0;
    for (const Fast &each : fastest) {
      double count = std::min(left, each.workers);
      sum += count * each.samples;
      left -= count;
      workers += count;
    }
    return workers >= double(job.minWorkers) ? sum : 0;
  }

  /// Every job starts once, with its least number of workers or more.
  double leastLost(const std::vector<Way> &ways) const {
    double slowest = infinity;
    for (const Way &way : ways)
      slowest = std::min(slowest, way.samples);
    const Machines &machines = problem.machines();
    for (int kind = 0; kind < machines.kinds() && !ways.empty(); ++kind) // over any network
      if (std::isfinite(problem.sampleTime(index, kind).value()))
        slowest = std::min(slowest, problem.samplesOfWorker(index, kind, slowestNetwork(kind)));
    double share = 1 - problem.restartShare(index);
    return ways.empty() ? 0 : share * slowest * double(job.minWorkers) * (1 - 1e-9);
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

  const Problem &problem;
  int index;
  const Job &job;
};
} // namespace

Ways waysOf(const Problem &problem, int job) { return WaysOfJob(problem, job).find(); }

} // namespace heterplan::jobs
