// From the chosen placement to a Plan.
#include "cost/Memory.h"
#include "search/placement/DeviceAssignment.h"
#include "search/placement/Evaluator.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
/// Replicas in the order of `devices`: the shares of each type, largest first.
std::vector<Replica> makeReplicas(const StagePrice &price, const std::vector<DeviceRef> &devices,
                                  int microBatches) {
  std::vector<Replica> replicas;
  for (const std::vector<int64_t> &shares : price.shares)
    for (int64_t share : shares) {
      Replica replica;
      replica.share = Samples(share * microBatches);
      replica.devices = {devices[replicas.size()]};
      replicas.push_back(std::move(replica));
    }
  return replicas;
}

void priceReplicas(Evaluator &evaluator, const PlacedStage &placed, const StagePrice &price,
                   int64_t batch, std::vector<Replica> &replicas) {
  size_t next = 0;
  const GroupCosts &costs = evaluator.costsOf(placed.group);
  Seconds summing(evaluator.sumsOf(placed.begin, placed.end, costs));
  for (size_t i = 0; i < placed.group.counts.size(); ++i)
    for (int64_t share : price.shares[i]) {
      const PrefixSums &prices = evaluator.pricesOf(placed.group.counts[i].first, share, batch);
      replicas[next].forward = Seconds(prices.forwardOf(placed.begin, placed.end)) + summing;
      replicas[next].backward = Seconds(prices.backwardOf(placed.begin, placed.end)) + summing;
      ++next;
    }
}

/// HeterPS knows no replicas: each is as fast as its stage.
void priceSteadily(const Stage &stage, std::vector<Replica> &replicas) {
  for (Replica &replica : replicas) {
    replica.forward = stage.forward;
    replica.backward = stage.backward;
  }
}

void fillObjective(const Evaluator &evaluator, const Evaluation &evaluation, double bound,
                   Plan &plan) {
  const Request &request = evaluator.problem.request;
  plan.objective = request.objective;
  plan.iteration = evaluation.iteration;
  plan.throughput = request.globalBatch / evaluation.iteration;
  plan.costPerHour = evaluation.price;
  plan.costPerMillionSamples =
      evaluation.price * evaluation.iteration * (1e6 / double(request.globalBatch.value()));
  bool maximise = request.objective == Objective::Throughput;
  auto inUnits = [&](double value) {
    return maximise ? double(request.globalBatch.value()) / value : value;
  };
  plan.objectiveValue = maximise ? plan.throughput.value() : plan.costPerMillionSamples.value();
  plan.optimal = evaluation.objective - bound <= 1e-9 * std::abs(evaluation.objective);
  plan.lowerBound = plan.optimal ? plan.objectiveValue : inUnits(bound);
  plan.gap = plan.objectiveValue == 0
                 ? 0
                 : std::abs(plan.objectiveValue - plan.lowerBound) / std::abs(plan.objectiveValue);
}
} // namespace

/// The figures of a stage but for what it receives.
Stage Evaluator::stageOf(const PlacedStage &placed, const StagePrice &price, int64_t batch) {
  const StageTimes &times = price.times;
  Stage stage;
  stage.forward = Seconds(times.forward);
  stage.backward = Seconds(times.backward);
  stage.sync = Seconds(times.sync);
  stage.update = Seconds(times.update);
  stage.lookup = Seconds(times.lookup);
  stage.lookupGradient = Seconds(times.lookupGradient);
  stage.replicas = slowestOfEachType(placed, price, batch);
  return stage;
}

void Evaluator::fillFits(Plan &plan) const {
  for (size_t type = 0; steadyModel && type < problem.cluster.types.size(); ++type) {
    if (space.available[type] == 0)
      continue;
    HeterPsModel::Residuals compute = steadyModel->computeResiduals(int(type));
    HeterPsModel::Residuals transfer = steadyModel->transferResiduals(int(type));
    int worst = compute.worst >= transfer.worst ? compute.worstLayer : transfer.worstLayer;
    plan.fits.push_back({problem.cluster.types[type].name, compute.median, compute.worst,
                         transfer.median, transfer.worst,
                         worst < 0 ? "" : problem.graph.layers[worst].name});
  }
}

/// Adds what stage `i` spends on links: modelled, unless a profile has them.
void Evaluator::addCommunication(const Placement &placement, const Evaluation &evaluation, int i,
                                 Plan &plan) const {
  const Stage &stage = evaluation.stages[i];
  const DeviceGroup &group = placement.stages[i].group;
  auto add = [&](Provenance origin, double seconds) {
    plan.provenance[static_cast<size_t>(origin)] += seconds;
  };
  auto addMessages = [&](int other, Seconds each) {
    if (other >= 0 && other < int(placement.stages.size()))
      add(transferPath(problem.cluster, placement.stages[other].group, group).link.provenance,
          plan.microBatches * each.value());
  };
  addMessages(i - 1, stage.receive);
  addMessages(i + 1, stage.receiveGradient);
  add(lookupCost(problem.cluster, group).provenance,
      plan.microBatches * (stage.lookup + stage.lookupGradient).value());
  CollectiveCost reduce = allReduceCost(problem.cluster, group);
  const PlacedStage &placed = placement.stages[i];
  double summing = steadyModel ? 0 : sumsOf(placed.begin, placed.end, {reduce, {}, {}});
  add(reduce.provenance, (stage.sync - stage.update).value() + 2 * plan.microBatches * summing);
}

/// Shares of the compute, transfer and synchronisation time of each stage's slowest replica, by
/// origin.
void Evaluator::fillProvenance(const Placement &placement, const Evaluation &evaluation,
                               Plan &plan) {
  std::array<double, provenances> &shares = plan.provenance;
  double microBatches = plan.microBatches;
  for (size_t i = 0; i < placement.stages.size(); ++i) {
    addCommunication(placement, evaluation, int(i), plan);
    const PlacedStage &placed = placement.stages[i];
    auto [type, count] = placed.group.counts.front();
    Samples share = plan.stages[i].replicas.front().share;
    for (int layer = placed.begin; layer < placed.end; ++layer) {
      Expected<LayerCost> cost =
          problem.costs->price(problem.graph.layers[layer], problem.cluster.types[type],
                               Samples(share.value() / plan.microBatches));
      if (!cost) {
        consumeError(cost.takeError());
        continue;
      }
      shares[static_cast<int>(cost->provenance)] +=
          microBatches * (cost->forward + cost->backward).value() + cost->update.value();
    }
  }
  double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum == 0)
    shares[static_cast<int>(Provenance::Modelled)] = sum = 1;
  for (double &share : shares)
    share /= sum;
}

/// As even as rows go, the larger parts first.
std::vector<TableShards> Evaluator::shardTables(const PlacedStage &placed) const {
  std::vector<TableShards> result;
  int64_t replicas = placed.group.size();
  for (int layer = placed.begin; layer < placed.end; ++layer)
    for (const SparseTable &table : problem.graph.layers[layer].tables) {
      TableShards shards{table.parameter, {}};
      for (int64_t replica = 0; replica < replicas; ++replica)
        shards.rows.push_back(table.rows / replicas + (replica < table.rows % replicas));
      result.push_back(std::move(shards));
    }
  return result;
}

/// Of the devices of `stage`, whose replicas and tables are known.
Bytes Evaluator::largestNeed(const PlacedStage &placed, const Stage &stage, int microBatches,
                             int inFlight) const {
  Bytes most{};
  for (size_t replica = 0; replica < stage.replicas.size(); ++replica) {
    Samples share(stage.replicas[replica].share.value() / microBatches);
    Bytes need = deviceMemory(problem.graph, placed.begin, placed.end, cuts[placed.begin],
                              problem.request.optimizer, share, inFlight);
    auto shards = stage.tables.begin();
    for (int layer = placed.begin; layer < placed.end; ++layer)
      for (const SparseTable &table : problem.graph.layers[layer].tables)
        need += tableMemory(table, (shards++)->rows[replica], problem.request.optimizer,
                            problem.request.globalBatch);
    most = std::max(most, need);
  }
  return most;
}

Expected<Plan> Evaluator::plan(const Placement &placement, double bound) {
  std::optional<Evaluation> evaluation = evaluate(placement);
  if (Error error = table.takeError())
    return error;
  assert(evaluation && "only feasible placements become plans");
  const Request &request = problem.request;
  Plan plan;
  plan.model = problem.graph.model;
  plan.modelFingerprint = problem.graph.fingerprint;
  plan.cluster = problem.cluster.name;
  plan.clusterFingerprint = problem.cluster.fingerprint;
  plan.globalBatch = request.globalBatch;
  plan.microBatches = placement.microBatches;
  plan.optimizer = request.optimizer;
  plan.precision = request.precision;
  plan.iterationModel = request.iterationModel;
  static_cast<Requirements &>(plan) = request;
  plan.training = request.training;
  plan.stages = evaluation->stages;
  int count = static_cast<int>(plan.stages.size());
  plan.schedule = count == 1 ? Schedule::DataParallel : Schedule::OneForwardOneBackward;
  std::vector<std::vector<DeviceRef>> devices =
      assignDevices(problem.cluster, placement, space.perNode);
  int64_t batch = request.globalBatch.value() / placement.microBatches;
  for (int i = 0; i < count; ++i) {
    const PlacedStage &placed = placement.stages[i];
    int inFlight = std::min(placement.microBatches, count - i);
    StagePrice price =
        priceStage(placed.begin, placed.end, placed.group, batch, i + 1 == count, inFlight);
    Stage &stage = plan.stages[i];
    for (int layer = placed.begin; layer < placed.end; ++layer)
      stage.layers.push_back(problem.graph.layers[layer].name);
    stage.replicas = makeReplicas(price, devices[i], placement.microBatches);
    if (steadyModel)
      priceSteadily(stage, stage.replicas);
    else
      priceReplicas(*this, placed, price, batch, stage.replicas);
    stage.parameterBytes = parametersOf(placed.begin, placed.end);
    stage.tables = shardTables(placed);
    stage.memory = largestNeed(placed, stage, placement.microBatches, inFlight);
  }
  fillObjective(*this, *evaluation, bound, plan);
  fillProvenance(placement, *evaluation, plan);
  fillFits(plan);
  return plan;
}

} // namespace heterplan
