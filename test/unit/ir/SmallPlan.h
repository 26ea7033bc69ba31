// A plan of two stages with two replicas and one, small enough to calculate by hand, with its model
// and cluster.
#pragma once

#include "ir/Program.h"

namespace heterplan::test {

inline LayerGraph smallGraph() {
  LayerGraph graph;
  graph.model = "small";
  for (const char *name : {"a", "b", "c"}) {
    Layer layer;
    layer.name = layer.signature = name;
    graph.layers.push_back(layer);
  }
  LayerTensor direct, skip;
  direct.name = "ab";
  direct.producer = 0;
  direct.consumers = {1};
  skip.name = "ac";
  skip.producer = 0;
  skip.consumers = {2};
  skip.differentiable = false;
  skip.type = DataType::Int64;
  skip.shape = {{1, 0}, {0, 3}};
  graph.tensors = {direct, skip};
  return graph;
}

inline Cluster smallCluster() {
  Cluster cluster;
  cluster.name = "small";
  cluster.types.resize(2);
  cluster.types[0].name = "cpu";
  cluster.types[0].deviceClass = DeviceClass::Cpu;
  cluster.types[1].name = "gpu";
  return cluster;
}

inline Replica smallReplica(int64_t share, double forward, const char *type, int index) {
  Replica replica;
  replica.share = Samples(share);
  replica.forward = Seconds(forward);
  replica.backward = Seconds(2 * forward);
  replica.devices = {{type, "node", index}};
  return replica;
}

/// Stage 0: layers a and b on two CPUs, 3 and 1 samples; stage 1: layer c on a GPU, 4 samples. Four
/// micro-batches. τ = 12, 7.5; iteration 12 + 7.5 + 3·12 + sync.
inline Plan smallPlan() {
  Plan plan;
  plan.model = "small";
  plan.cluster = "small";
  plan.globalBatch = Samples(16);
  plan.microBatches = 4;
  plan.schedule = Schedule::OneForwardOneBackward;
  plan.stages.resize(2);
  Stage &first = plan.stages[0], &last = plan.stages[1];
  first.layers = {"a", "b"};
  first.replicas = {smallReplica(12, 3, "cpu", 0), smallReplica(4, 2, "cpu", 1)};
  first.receiveGradient = Seconds(3);
  first.forward = Seconds(3);
  first.backward = Seconds(9);
  first.update = Seconds(1);
  first.sync = Seconds(5);
  last.id = 1;
  last.layers = {"c"};
  last.replicas = {smallReplica(16, 2, "gpu", 0)};
  last.receive = Seconds(1.5);
  last.forward = Seconds(3.5);
  last.backward = Seconds(4);
  last.update = last.sync = Seconds(2);
  plan.iteration = iterationTime(plan.stages, plan.microBatches, plan.schedule);
  return plan;
}

/// With a table of 10 rows in layer a, of which the replicas hold 7 and 3; lookups take 1 s, the
/// exchange of gradients 2 s.
inline LayerGraph smallGraphWithTable() {
  LayerGraph graph = smallGraph();
  graph.layers[0].parameters = {"a.table"};
  graph.layers[0].parameterBytes = Bytes(160);
  graph.layers[0].tables = {{"a.table", 10, 4, DataType::Float32, 2}};
  return graph;
}
inline Plan smallPlanWithTable() {
  Plan plan = smallPlan();
  Stage &first = plan.stages[0];
  first.tables = {{"a.table", {7, 3}}};
  first.lookup = Seconds(1);
  first.lookupGradient = Seconds(2);
  first.forward += first.lookup;
  first.backward += first.lookupGradient;
  plan.iteration = iterationTime(plan.stages, plan.microBatches, plan.schedule);
  return plan;
}

/// With what the replicas of stage 0 share; sums of sharded gradients take 1 s of each backward
/// pass, and gathers of sharded parameters 0.5 s of each pass.
inline Plan smallShardedPlan(StateSharding sharding) {
  Plan plan = smallPlan();
  Stage &first = plan.stages[0];
  first.sharding.state = sharding;
  if (sharding == StateSharding::Parameters) {
    first.gather = Seconds(0.5);
    first.sync = first.update;
  }
  if (StageSharding{sharding}.scattersGradients())
    first.reduceScatter = Seconds(1);
  first.forward += first.gather;
  first.backward += first.gather + first.reduceScatter;
  for (Replica &replica : first.replicas) {
    replica.forward += first.gather;
    replica.backward += first.gather + first.reduceScatter;
  }
  plan.iteration = iterationTime(plan.stages, plan.microBatches, plan.schedule);
  return plan;
}

} // namespace heterplan::test
