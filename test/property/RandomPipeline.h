// Random plans of pipelines with a model and a cluster that fit them, for laws of lowering and
// simulation. Stage times follow from the replicas' as they do in plans that are searched.
#pragma once

#include "ir/Program.h"

#include <algorithm>
#include <random>

namespace heterplan::test {

/// How forward and backward times relate.
enum class Ratio {
  Equal,       // one ratio for the whole model
  Independent, // any
};

class RandomPipeline {
public:
  RandomPipeline(uint64_t seed, Ratio ratio, Schedule schedule)
      : engine(seed), ratio(ratio), backwardPerForward(real(0, 4)) {
    plan.schedule = schedule;
    int stages = integer(1, 6);
    if (stages == 1)
      plan.schedule = Schedule::DataParallel;
    plan.microBatches = integer(1, 14);
    int microBatch = integer(1, 9);
    missing = microBatch > 1 && integer(0, 1) ? integer(0, plan.microBatches - 1) : 0;
    plan.globalBatch = Samples(plan.microBatches * microBatch - missing);
    plan.model = graph.model = "random";
    plan.cluster = cluster.name = "random";
    cluster.types.push_back({});
    cluster.types.back().name = "gpu";
    for (int id = 0; id < stages; ++id)
      addStage(id, stages, microBatch);
    addTensors();
    plan.overlapsSums = seed % 3 == 0;
    plan.overlapsTransfers = seed % 4 == 1 && plan.schedule == Schedule::OneForwardOneBackward;
    plan.iteration = iterationTime(timed(), plan.microBatches, plan.schedule);
  }

  /// The stages that times are of.
  std::vector<Stage> timed() const {
    return plan.overlapsTransfers ? withTransfersApart(plan.stages) : plan.stages;
  }

  Plan plan;
  LayerGraph graph;
  Cluster cluster;

private:
  int integer(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine);
  }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(engine);
  }
  /// Zero now and then, and spread over magnitudes.
  Seconds time() { return Seconds(integer(0, 9) ? std::pow(real(0, 1), integer(1, 5)) : 0); }
  Seconds backwardOf(Seconds forward) {
    return ratio == Ratio::Equal ? forward * backwardPerForward : time();
  }

  void addStage(int id, int stages, int microBatch) {
    Stage stage;
    stage.id = id;
    for (int i = integer(1, 3); i > 0; --i) {
      graph.layers.push_back({});
      Layer &layer = graph.layers.back();
      layer.name = layer.signature = "l" + std::to_string(graph.size());
      stage.layers.push_back(layer.name);
    }
    addReplicas(stage, microBatch);
    if (stage.replicas.size() > 1)
      shardState(stage);
    stage.recompute.assign(size_t(integer(0, 1)), stage.layers.front());
    if (integer(0, 2) == 0)
      addTable(stage);
    if (id > 0)
      stage.receive = time();
    if (id + 1 < stages)
      stage.receiveGradient = backwardOf(stage.receive);
    if (!stage.tables.empty()) {
      stage.lookup = time();
      stage.lookupGradient = backwardOf(stage.lookup);
    }
    setTimes(stage, id + 1 == stages);
    stage.update = time();
    // Replicas that divide parameters which no other stage uses synchronise within the passes.
    const bool isSliced = stage.sharding.state == StateSharding::Parameters;
    stage.sync = stage.update + (isSliced ? Seconds(0) : time());
    plan.stages.push_back(std::move(stage));
  }

  /// Now and then; sums of sharded gradients are part of the backward pass.
  void shardState(Stage &stage) {
    stage.sharding.state = static_cast<StateSharding>(std::max(0, integer(-2, 3)));
    if (!stage.sharding.scattersGradients() || ratio == Ratio::Equal)
      return;
    stage.reduceScatter = time();
    for (Replica &replica : stage.replicas)
      replica.backward += stage.reduceScatter;
  }

  /// In the last layer so far, which is the stage's.
  void addTable(Stage &stage) {
    Layer &layer = graph.layers.back();
    TableShards shards{layer.name + ".table", {}};
    SparseTable table{shards.table, 0, 4, DataType::Float32, 1};
    for (size_t replica = 0; replica < stage.replicas.size(); ++replica) {
      shards.rows.push_back(integer(1, 50));
      table.rows += shards.rows.back();
    }
    layer.parameters.push_back(table.parameter);
    layer.tables.push_back(table);
    layer.parameterBytes = table.bytes();
    stage.tables.push_back(std::move(shards));
  }

  void addReplicas(Stage &stage, int microBatch) {
    int left = microBatch;
    while (left > 0) {
      int samples = integer(1, left);
      left -= samples;
      Replica replica;
      replica.share = Samples(samples * plan.microBatches);
      replica.forward = time();
      replica.backward = backwardOf(replica.forward);
      int index = static_cast<int>(stage.replicas.size());
      replica.devices.push_back({"gpu", "node-" + std::to_string(stage.id), index});
      stage.replicas.push_back(std::move(replica));
    }
    Samples &odd = stage.replicas[integer(0, int(stage.replicas.size()) - 1)].share;
    odd = Samples(odd.value() - missing);
  }

  /// In the last stage of 1F1B each replica goes on to its backward pass at once; elsewhere
  /// boundaries are barriers.
  void setTimes(Stage &stage, bool last) {
    auto both = [](const Replica &replica) { return replica.forward + replica.backward; };
    Replica slowest;
    for (const Replica &replica : stage.replicas) {
      if (last && plan.schedule != Schedule::GPipe) {
        if (both(replica) >= both(slowest))
          slowest = replica;
      } else {
        slowest.forward = std::max(slowest.forward, replica.forward);
        slowest.backward = std::max(slowest.backward, replica.backward);
      }
    }
    stage.forward = stage.receive + stage.lookup + slowest.forward;
    stage.backward = stage.receiveGradient + stage.lookupGradient + slowest.backward;
  }

  void addTensors() {
    for (int i = 0; i + 1 < graph.size(); ++i)
      if (integer(0, 3)) {
        LayerTensor tensor;
        tensor.name = "t" + std::to_string(i);
        tensor.producer = i;
        tensor.consumers = {integer(i + 1, graph.size() - 1)};
        graph.tensors.push_back(std::move(tensor));
      }
  }

  std::mt19937_64 engine;
  int missing = 0; // micro-batches that have a sample less
  Ratio ratio;
  double backwardPerForward;
};

} // namespace heterplan::test
