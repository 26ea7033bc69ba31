#include "search/burst/BurstPlan.h"

#include "cost/IdleGaps.h"
#include "cost/IterationRules.h"
#include "cost/Simulator.h"
#include "search/burst/BurstFlows.h"
#include "search/placement/PlanBuilder.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
class BurstPlanBuilder {
public:
  BurstPlanBuilder(BurstCosts &costs, ArrayRef<BurstStage> choice)
      : costs(costs), problem(costs.problem), choice(choice), flows(flowsOf(problem.graph, choice)),
        plan(planFor(problem)) {
    plan.schedule = Schedule::Burst;
  }

  Expected<Plan> build() {
    for (size_t i = 0; i < choice.size(); ++i)
      addStage(int(i));
    for (size_t i = 0; i < flows.crossing.size(); ++i)
      addMove(flows.graph.links()[i], flows.crossing[i]);
    for (size_t i = 0; i < choice.size(); ++i)
      addReceipts(int(i));
    for (size_t i = 0; i < choice.size(); ++i)
      addAmplification(int(i));
    fillFigures();
    Expected<std::vector<IdleGap>> idle = findIdleGaps(plan, problem.graph, problem.cluster);
    if (!idle)
      return idle.takeError();
    plan.idle = std::move(*idle);
    return std::move(plan);
  }

private:
  void addStage(int index) {
    const BurstStage &chosen = choice[index];
    StageCost cost = costs.stage(chosen.layers, chosen.width, flows.messagesOf(index));
    Stage &stage = plan.stages.emplace_back();
    stage.id = index;
    for (int layer = chosen.layers.begin; layer < chosen.layers.end; ++layer)
      stage.layers.push_back(problem.graph.layers[layer].name);
    const Pool &pool = costs.pool;
    for (int device : Pool::order(chosen.width)) {
      PoolKind kind = pool.kindOf(chosen.width, device);
      ReplicaCost passes = costs.replica(chosen.layers, chosen.width, kind);
      stage.replicas.push_back({Samples(kind.samples),
                                passes.forward,
                                passes.backward,
                                {pool.device(chosen.first + device)}});
    }
    stage.forward = cost.forward;
    stage.backward = cost.backward;
    stage.sync = cost.synchronization;
    stage.update = cost.update;
    for (const PoolKind &kind : pool.kinds(chosen.width))
      stateNeed(costs.memory(cost, kind), problem.cluster.types[kind.type], stage);
    stage.parameterBytes = costs.costs.memoryOf(0).parameters(chosen.layers);
    addProvenance(chosen, cost);
  }

  /// Adds the traffic over a link, from the devices of one stage to those of the other and back.
  void addMove(const StageLink &link, const Cut &cut) {
    DeviceRun from = choice[link.from].devices(), to = choice[link.to].devices();
    const BoundaryCost cost = costs.pool.boundary(from, to, MessageBytes(cut));
    plan.stages[link.to].inputs.push_back({link.from, cost.receive, cost.receiveGradient});
    if (from.width != to.width)
      spend(costs.pool.provenance(from.width, to.width), cost.both());
  }

  void addReceipts(int index) {
    Stage &stage = plan.stages[index];
    std::vector<std::pair<DeviceRun, Seconds>> received, returned;
    for (const StageInput &input : stage.inputs)
      received.push_back({choice[input.stage].devices(), input.receive});
    for (int link : flows.graph.outOf(index)) {
      int to = flows.graph.links()[link].to;
      returned.push_back({choice[to].devices(), inputOf(plan.stages, {index, to}).receiveGradient});
    }
    stage.receive = costs.pool.receiptTime(choice[index].devices(), received);
    stage.forward += stage.receive;
    stage.receiveGradient = costs.pool.receiptTime(choice[index].devices(), returned);
    stage.backward += stage.receiveGradient;
  }

  /// The stages that it follows go back at the same time.
  void addAmplification(int index) {
    Stage &stage = plan.stages[index];
    Seconds returned{};
    for (const StageInput &input : stage.inputs)
      returned = std::max(returned, input.receiveGradient);
    LayerRange layers = choice[index].layers;
    for (int layer = layers.begin; layer < layers.end; ++layer) {
      Seconds moving = layer == layers.begin ? stage.receive + returned : Seconds();
      stage.amplification =
          std::max(stage.amplification, costs.amplification(layer, choice[index].width, moving));
    }
    if (flows.graph.isChain()) // as plans have it
      stage.inputs.clear();
  }

  void spend(Provenance origin, Seconds time) { times.add(origin, time.value()); }

  void addProvenance(const BurstStage &chosen, const StageCost &cost) {
    if (cost.slowestForward == cost.slowestBackward) {
      cost.slowestForward->addByOrigin(chosen.layers, 1, 1, 1, times);
    } else {
      cost.slowestForward->addByOrigin(chosen.layers, 1, 0, 0, times);
      cost.slowestBackward->addByOrigin(chosen.layers, 0, 1, 1, times);
    }
    spend(costs.costs.costsOf(costs.pool.group(chosen.width)).reduce.provenance,
          BurstCosts::sumOf(cost) + cost.inPassAllReduce * 2);
  }

  void fillFigures() {
    int most = 0;
    for (size_t i = 0; i < choice.size(); ++i) {
      const Stage &stage = plan.stages[i];
      most = std::max(most, choice[i].devices().end());
      plan.deviceTime += (stage.time() + stage.sync) * double(choice[i].width);
    }
    double batch = double(plan.globalBatch.value());
    plan.iteration = rulesOf(plan.iterationModel).iteration(plan.stages, 1, plan.schedule);
    plan.throughput = plan.globalBatch / plan.iteration;
    plan.costPerHour = costs.pool.price(most);
    plan.costPerMillionSamples = plan.costPerHour * plan.iteration * (1e6 / batch);
    stateProvenance(times, plan);
  }

  BurstCosts &costs;
  const Problem &problem;
  ArrayRef<BurstStage> choice;
  const BurstFlows flows;
  Plan plan;
  TimeSum times; // of all stages
};

/// Memory of each rank that no stage of the plan takes.
std::map<DeviceRef, Bytes> freeMemory(const Plan &plan, const Cluster &cluster) {
  std::map<DeviceRef, Bytes> result = memoryByDevice(plan);
  for (auto &[device, bytes] : result)
    bytes = std::max(Bytes(), cluster.types[cluster.typeIndex(device)].memory - bytes);
  return result;
}
} // namespace

Expected<std::vector<IdleGap>> findIdleGaps(const Plan &plan, const LayerGraph &graph,
                                            const Cluster &cluster) {
  Expected<Program> program = lower(plan, graph, cluster);
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  std::map<DeviceRef, Bytes> memory = freeMemory(plan, cluster);
  std::vector<IdleGap> result;
  for (const RankGap &gap : gapsOf(*program, simulation->timeline)) {
    const DeviceRef &device = program->ranks[gap.rank].device;
    result.push_back({device, gap.begin, gap.duration(), memory[device]});
  }
  return result;
}

Expected<Plan> makeBurstPlan(BurstCosts &costs, ArrayRef<BurstStage> stages) {
  return BurstPlanBuilder(costs, stages).build();
}

} // namespace heterplan
