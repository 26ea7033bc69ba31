#include "search/burst/Background.h"

#include "cost/BackgroundSimulator.h"
#include "search/burst/Burst.h"
#include "search/burst/BurstPlan.h"
#include "search/placement/PlanBuilder.h"
#include "search/problem/Cuts.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// Places at most where the passes of a copy may be interrupted.
constexpr int mostCopyCuts = 32;

/// Memory that the plan may use of a device and does not; by device with gaps.
std::map<DeviceRef, Bytes> roomsOf(const Plan &plan, const Cluster &cluster) {
  std::map<DeviceRef, Bytes> result;
  double kept = 1 - plan.memoryPart();
  for (const IdleGap &gap : plan.idle) {
    Bytes memory = cluster.types[cluster.typeIndex(gap.device)].memory;
    result.try_emplace(gap.device, gap.freeMemory - memory * kept);
  }
  return result;
}

class BackgroundPacker {
public:
  BackgroundPacker(const Plan &plan, const BackgroundInputs &inputs) : plan(plan), inputs(inputs) {
    job.model = inputs.copy.model;
    job.modelFingerprint = inputs.copy.modelFingerprint;
    job.batch = inputs.copy.globalBatch;
    job.maxSlowdown = inputs.maxSlowdown;
    job.iteration = inputs.copy.iteration;
    for (const auto &[device, bytes] : memoryByDevice(inputs.copy))
      job.memory = std::max(job.memory, bytes);
  }

  Expected<BackgroundJob> run() {
    findHosts();
    BackgroundJob best = job;
    best.clusterThroughput = plan.throughput;
    for (double share : {0.0, 0.125, 0.25, 0.5, 1.0}) { // of the slow-down that may be
      Seconds overrun = plan.iteration * (share * inputs.maxSlowdown);
      if (share > 0 && overrun == Seconds())
        break;
      Expected<BackgroundJob> found = pack(overrun);
      if (!found)
        return found;
      if (found->predictedSlowdown <= inputs.maxSlowdown &&
          found->clusterThroughput > best.clusterThroughput)
        best = std::move(*found);
    }
    return best;
  }

private:
  int typeOf(const DeviceRef &device) const { return inputs.cluster.typeIndex(device); }

  /// The copy is planned for devices of one type; those of others have none.
  void findHosts() {
    std::map<DeviceRef, Bytes> rooms = roomsOf(plan, inputs.cluster);
    int type = typeOf(inputs.copy.stages.front().replicas.front().devices.front());
    for (const RankProgram &rank : inputs.program.ranks)
      if (auto room = rooms.find(rank.device);
          room != rooms.end() && job.memory <= room->second && typeOf(rank.device) == type)
        hosts.push_back(rank.rank);
  }

  Expected<BackgroundJob> pack(Seconds overrun) const {
    Expected<SharedSimulation> shared =
        simulateTogether(inputs.program, inputs.copyProgram, hosts, overrun);
    if (!shared)
      return shared.takeError();
    BackgroundJob result = job;
    result.overrun = overrun;
    result.predictedSlowdown = shared->slowdown;
    Seconds iteration = shared->iteration * (1 + shared->slowdown);
    for (size_t host = 0; host < hosts.size(); ++host) {
      double samples = shared->iterations[host] * double(job.batch.value());
      if (samples == 0)
        continue;
      SamplesPerSecond rate(samples / iteration.value());
      result.copies.push_back({inputs.program.ranks[hosts[host]].device, rate});
      result.rate += rate;
    }
    result.clusterThroughput = plan.globalBatch / iteration + result.rate;
    return result;
  }

  const Plan &plan;
  const BackgroundInputs &inputs;
  BackgroundJob job; // what does not depend on the packing
  std::vector<int> hosts;
};
} // namespace

Expected<Plan> planCopy(const Problem &problem, int type) {
  for (const Layer &layer : problem.graph.layers)
    if (!layer.tables.empty())
      return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "background"})
             << "layer '" << layer.name
             << "' has a sparse table, which background jobs do not support";
  Pool pool(problem.cluster, type, 1, problem.request.globalBatch, Widths::Powers);
  BurstCosts costs(problem, pool);
  std::vector<int> positions = cutPositions(problem, mostCopyCuts);
  std::vector<BurstStage> stages;
  for (size_t i = 0; i + 1 < positions.size(); ++i)
    stages.push_back({{positions[i], positions[i + 1]}, 1});
  Expected<Plan> plan = makeBurstPlan(costs, stages);
  if (Error error = costs.takeError()) {
    if (!plan)
      consumeError(plan.takeError());
    return error;
  }
  if (!plan)
    return plan.takeError();
  // On one device all cuts come to the same time.
  plan->searchSpaceLimits = leftOutOfBursts(problem, pool);
  plan->searchSpaceLimits.push_back("more than one device");
  plan->searchSpace = burstSpaceName(plan->searchSpaceLimits);
  plan->strategy = "auto";
  stateWorth(*plan, plan->throughput.value(), /*optimal=*/true);
  return plan;
}

Expected<BackgroundJob> packBackground(const Plan &plan, const BackgroundInputs &inputs) {
  return BackgroundPacker(plan, inputs).run();
}

} // namespace heterplan
