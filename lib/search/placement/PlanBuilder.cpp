#include "search/placement/PlanBuilder.h"

#include "cost/Memory.h"
#include "search/balance/Balance.h"
#include "search/placement/DeviceAssignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
/// Gives the last of those with the most samples one sample less in each micro-batch that is not
/// full. `replicas` have shares that are multiples of their number.
void dropMissing(const MicroBatches &microBatches, std::vector<Replica> &replicas) {
  auto most =
      std::max_element(replicas.rbegin(), replicas.rend(),
                       [](const Replica &a, const Replica &b) { return a.share < b.share; });
  most->share = Samples(most->share.value() - microBatches.missing());
}
} // namespace

Plan planFor(const Problem &problem) {
  const Request &request = problem.request;
  Plan plan;
  plan.model = problem.graph.model;
  plan.modelFingerprint = problem.graph.fingerprint;
  plan.cluster = problem.cluster.name;
  plan.clusterFingerprint = problem.cluster.fingerprint;
  plan.globalBatch = request.globalBatch;
  plan.optimizer = request.optimizer;
  plan.optimizerKernels = request.optimizerKernels;
  plan.precision = request.precision;
  plan.memoryFormat = request.memoryFormat.value_or(MemoryFormat::ChannelsFirst);
  plan.iterationModel = request.iterationModel;
  plan.batchNorm = request.batchNorm;
  plan.division = problem.graph.division;
  plan.layerOrder = problem.graph.order;
  stateRequest(request, plan);
  plan.training = request.training;
  plan.objective = request.objective;
  for (const DeviceType &type : problem.cluster.types)
    if (type.ofType < 0 && none_of(plan.deviceMemory, [&](const DeviceMemory &known) {
          return known.type == type.stated();
        }))
      plan.deviceMemory.push_back({type.stated(), type.overhead});
  return plan;
}

void stateNeed(Bytes tensors, const DeviceType &type, Stage &stage) {
  Bytes need = type.overhead.resident(tensors);
  if (need <= stage.memory)
    return;
  stage.memory = need;
  stage.overhead = type.overhead.constant;
}

void stateWorth(Plan &plan, double bound, bool optimal) {
  switch (plan.objective) {
  case Objective::Throughput:
    plan.objectiveValue = plan.throughput.value();
    break;
  case Objective::Cost:
    plan.objectiveValue = plan.costPerMillionSamples.value();
    break;
  case Objective::DeviceSeconds:
    plan.objectiveValue = plan.deviceTime.value();
    break;
  }
  plan.optimal = optimal;
  plan.lowerBound = optimal ? plan.objectiveValue : bound;
  plan.gap = plan.objectiveValue == 0
                 ? 0
                 : std::abs(plan.objectiveValue - plan.lowerBound) / std::abs(plan.objectiveValue);
}

void stateProvenance(const TimeSum &times, Plan &plan) {
  if (plan.iterationModel == IterationModel::Synchronous) { // the others have not been held to runs
    plan.expected = expectedTime(
        plan.overlapsTransfers ? withTransfersApart(plan.stages) : plan.stages, plan.microBatches);
    plan.iterationInterval = intervalOf(*plan.expected, times);
  }
  plan.provenance = times.byOrigin;
  double sum = times.seconds();
  if (sum == 0)
    plan.provenance[static_cast<int>(Provenance::Modelled)] = sum = 1;
  for (double &share : plan.provenance)
    share /= sum;
}

/// Replicas in the order of `devices`: the shares of each type, largest first.
std::vector<Replica> PlanBuilder::replicasOf(const StageEvaluation &run, const PlacedStage &placed,
                                             const std::vector<DeviceRef> &devices, int inFlight) {
  std::vector<Replica> replicas;
  BatchSplit split = evaluator.stages.splitOf(placement.microBatches, true);
  for (size_t i = 0; i < placed.group.counts.size(); ++i) {
    auto [type, count] = placed.group.counts[i];
    int64_t most =
        evaluator.stages.mostSamples(placed.layers(), type, inFlight, split.batch, run.option);
    for (int64_t share : run.shares.empty() ? evenShares(split.batch, count) : run.shares[i]) {
      ReplicaCost cost =
          evaluator.stages.costs.replicaCost(placed.layers(), run.option, split, type, share);
      replicas.push_back({Samples(share * placement.microBatches),
                          cost.forward,
                          cost.backward,
                          {devices[replicas.size()]},
                          most});
    }
  }
  dropMissing({problem.request.globalBatch, placement.microBatches}, replicas);
  return replicas;
}

/// Even rows are as even as they go, the larger parts first.
std::vector<TableShards> PlanBuilder::tablesOf(const PlacedStage &placed,
                                               const StageOption &option) const {
  std::vector<TableShards> result;
  int64_t replicas = placed.group.replicas();
  for (int layer = placed.begin; layer < placed.end; ++layer)
    for (const SparseTable &table : problem.graph.layers[layer].tables) {
      TableShards shards{table.parameter, {}};
      if (!option.tableParts.empty())
        shards.rows = option.rowsOf(table);
      for (int64_t replica = shards.rows.size(); replica < replicas; ++replica)
        shards.rows.push_back(table.rows / replicas + (replica < table.rows % replicas));
      result.push_back(std::move(shards));
    }
  return result;
}

/// States the memory of the devices of `stage`, whose replicas and tables are known.
void PlanBuilder::stateMemory(const StageEvaluation &run, const PlacedStage &placed, int inFlight,
                              Stage &stage) {
  MicroBatches microBatches{problem.request.globalBatch, placement.microBatches};
  Bytes largestParts = evaluator.stages.costs.memoryOf(placed.group)
                           .tables(placed.layers(), placed.group.replicas());
  for (size_t replica = 0; replica < stage.replicas.size(); ++replica) {
    Samples share(microBatches.fullPartOf(stage.replicas[replica].share));
    int type = problem.cluster.typeIndex(stage.replicas[replica].devices.front());
    Bytes need = run.cost.memory.on(problem.roomOf(type)).need(share, inFlight) - largestParts;
    auto shards = stage.tables.begin();
    for (int layer = placed.begin; layer < placed.end; ++layer)
      for (const SparseTable &table : problem.graph.layers[layer].tables)
        need += tableMemory(table, (shards++)->rows[replica], problem.request.optimizer,
                            problem.request.globalBatch);
    stateNeed(need, problem.cluster.types[type], stage);
  }
}

void PlanBuilder::fillStage(const StageEvaluation &run, const std::vector<DeviceRef> &devices,
                            int index, Plan &plan) {
  const PlacedStage &placed = placement.stages[index];
  StageMemory &memory = evaluator.stages.costs.memoryOf(placed.group);
  Stage &stage = plan.stages[index];
  for (int layer = placed.begin; layer < placed.end; ++layer)
    stage.layers.push_back(problem.graph.layers[layer].name);
  int inFlight =
      problem.request.inFlight(int(placement.stages.size()) - index, placement.microBatches);
  stage.replicas = replicasOf(run, placed, devices, inFlight);
  stage.parameterBytes = memory.parameters(placed.layers());
  stage.tables = tablesOf(placed, run.option);
  stage.sharding = run.option.sharding;
  if (run.option.recomputation)
    for (int layer : memory.firstLayers(placed.layers(), run.option.recomputation))
      stage.recompute.push_back(problem.graph.layers[layer].name);
  stateMemory(run, placed, inFlight, stage);
}

void PlanBuilder::fillObjective(const Evaluation &evaluation, double bound, Plan &plan) const {
  plan.iteration = evaluation.iteration;
  plan.throughput = plan.globalBatch / evaluation.iteration;
  plan.costPerHour = evaluation.price;
  plan.trafficCost = evaluation.traffic;
  plan.costPerMillionSamples =
      evaluation.price * evaluation.iteration * (1e6 / double(plan.globalBatch.value()));
  bool maximise = plan.objective == Objective::Throughput;
  // Neighbours may have come to lie in one node that were not asked to.
  bound = std::min(bound, evaluation.objective);
  stateWorth(plan, maximise ? double(plan.globalBatch.value()) / bound : bound,
             evaluation.objective - bound <= 1e-9 * std::abs(evaluation.objective));
}

void PlanBuilder::fillFits(Plan &plan) const {
  const HeterPsModel *fit = evaluator.stages.costs.fit();
  for (size_t type = 0; fit && type < problem.cluster.types.size(); ++type) {
    if (evaluator.space.available[type] == 0)
      continue;
    HeterPsModel::Residuals compute = fit->computeResiduals(int(type));
    HeterPsModel::Residuals transfer = fit->transferResiduals(int(type));
    int worst = compute.worst >= transfer.worst ? compute.worstLayer : transfer.worstLayer;
    plan.fits.push_back({problem.cluster.types[type].stated(), compute.median, compute.worst,
                         transfer.median, transfer.worst,
                         worst < 0 ? "" : problem.graph.layers[worst].name});
  }
}

/// Adds what stage `i` spends on links: modelled, unless a profile has them.
void PlanBuilder::addCommunication(const Evaluation &evaluation, int i, const Plan &plan,
                                   TimeSum &times) const {
  const Stage &stage = evaluation.stages[i];
  const StageCost &cost = evaluation.runs[i].cost;
  const DeviceGroup &group = placement.stages[i].group;
  auto addMessages = [&](int before, Seconds each) {
    if (before < 0 || before + 1 >= int(placement.stages.size()))
      return;
    TransferPath path =
        evaluator.pathBetween(placement.stages[before].group, placement.stages[before + 1].group);
    times.add(path.link.provenance, plan.microBatches * each.value());
  };
  addMessages(i - 1, stage.receive);
  addMessages(i, stage.receiveGradient);
  GroupCosts costs = evaluator.stages.costs.costsOf(group);
  times.add(costs.lookup.provenance,
            plan.microBatches * (stage.lookup + stage.lookupGradient).value());
  double reducing = (cost.synchronization - cost.update).value() +
                    2 * plan.microBatches * (cost.inPassAllReduce + cost.gather).value();
  times.add(costs.reduce.provenance, reducing + plan.microBatches * cost.reduceScatter.value());
}

/// Adds what the slowest replica of a stage computes, by where its times come from.
void PlanBuilder::addComputing(const StageEvaluation &run, const PlacedStage &placed,
                               TimeSum &times) {
  const StageCost &cost = run.cost;
  const LayerTimes *forward = cost.slowestForward, *backward = cost.slowestBackward;
  if (!forward) // fitted to these
    forward = backward = &evaluator.stages.timesOf(
        placed.group.counts.front().first, cost.largestShare.value(), placement.microBatches);
  double passes = placement.microBatches, forwards = run.option.recomputation ? 2 * passes : passes;
  double updates = run.option.sharding.dividesState() ? 1.0 / placed.group.replicas() : 1;
  if (forward == backward) {
    forward->addByOrigin(placed.layers(), forwards, passes, updates, times);
    return;
  }
  forward->addByOrigin(placed.layers(), passes, 0, 0, times);
  backward->addByOrigin(placed.layers(), forwards - passes, passes, updates, times);
}

/// Shares of the compute, transfer and synchronisation time of each stage's slowest replica, by
/// origin.
void PlanBuilder::fillProvenance(const Evaluation &evaluation, Plan &plan) {
  TimeSum times;
  for (size_t i = 0; i < placement.stages.size(); ++i) {
    addCommunication(evaluation, int(i), plan, times);
    addComputing(evaluation.runs[i], placement.stages[i], times);
  }
  stateProvenance(times, plan);
}

Expected<Plan> PlanBuilder::build(double bound) {
  std::vector<std::vector<DeviceRef>> devices =
      assignDevices(problem.cluster, placement, evaluator.space.rooms);
  stateNodeSharing(problem.cluster, devices, placement);
  std::optional<Evaluation> evaluation = evaluator.measure(placement, Among::Assigned);
  if (Error error = evaluator.takeError())
    return error;
  assert(evaluation && "only what can be measured becomes a plan");
  Plan plan = planFor(problem);
  plan.microBatches = placement.microBatches;
  plan.stages = evaluation->stages;
  int count = static_cast<int>(plan.stages.size());
  plan.schedule = count == 1 ? Schedule::DataParallel : Schedule::OneForwardOneBackward;
  for (int i = 0; i < count; ++i)
    fillStage(evaluation->runs[i], devices[i], i, plan);
  fillObjective(*evaluation, bound, plan);
  fillProvenance(*evaluation, plan);
  fillFits(plan);
  return plan;
}

} // namespace heterplan
