// Layers and plans of devices that share every layer, in files.
#include "ir/FileForms.h"
#include "ir/PlanShards.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

LayerGraph sharedLayers() {
  LayerGraph graph;
  graph.model = "m";
  graph.fingerprint = std::string(64, 'a');
  graph.shardDegree = 4;
  Layer layer;
  layer.name = layer.signature = "l";
  layer.shardDegree = 4;
  layer.shardCollectives = {{ShardCollective::AllReduce, false, 2, Bytes(12), Bytes(0)},
                            {ShardCollective::ReduceScatter, true, 1, Bytes(0), Bytes(8)}};
  graph.layers = {layer};
  return graph;
}

template <typename T> std::string faultOf(llvm::Expected<T> value) {
  return value ? "" : toText(value.takeError());
}

TEST(ShardForms, LayersReadBackAsTheyWere) {
  LayerGraph graph = sharedLayers();
  auto read = parseLayerGraph(toJson(graph), "m.layers.json");
  ASSERT_TRUE(static_cast<bool>(read)) << toText(read.takeError());
  EXPECT_EQ(*read, graph);
}

TEST(ShardForms, RefusesCollectivesOfLayersThatNobodyShares) {
  LayerGraph graph = sharedLayers();
  graph.shardDegree = 1;
  EXPECT_NE(
      faultOf(parseLayerGraph(toJson(graph), "m.layers.json")).find("a 'shardDegree' above 1"),
      std::string::npos);
}

TEST(ShardForms, RefusesADegreeBeyondAllClusters) {
  LayerGraph graph = sharedLayers();
  graph.shardDegree = 5000;
  EXPECT_NE(faultOf(parseLayerGraph(toJson(graph), "m.layers.json")).find("accepted is 1 to 1024"),
            std::string::npos);
}

TEST(ShardForms, RefusesAnUnknownCollective) {
  std::string text = toJson(sharedLayers());
  text.replace(text.find("reduce-scatter"), 14, "broadcast");
  EXPECT_NE(faultOf(parseLayerGraph(text, "m.layers.json")).find("broadcast"), std::string::npos);
}

TEST(ShardForms, HalvesBytesUnderAutocast) {
  LayerGraph graph = sharedLayers();
  graph.layers[0].autocast = AutocastMemory{};
  EXPECT_EQ(underAutocast(graph).layers[0].shardCollectives[0].bytesPerSample, Bytes(6));
}

/// Two replicas of one device each.
Plan groupedPlan() {
  Plan plan;
  Stage stage;
  for (int index : {1, 0}) {
    Replica replica;
    replica.devices = {{"gpu", "box", index}};
    stage.replicas.push_back(replica);
  }
  plan.stages = {stage};
  return plan;
}

TEST(PlanShards, NamesEveryDeviceOfAGroup) {
  Plan plan = withShardDevices(groupedPlan(), 4);
  EXPECT_EQ(shardDegreeOf(plan), 4);
  ASSERT_EQ(plan.stages[0].replicas[0].devices.size(), 4u);
  EXPECT_EQ(plan.stages[0].replicas[0].devices.front().index, 4);
  EXPECT_EQ(plan.stages[0].replicas[0].devices.back().index, 7);
  auto back = withShardGroups(plan);
  ASSERT_TRUE(static_cast<bool>(back));
  EXPECT_EQ(*back, groupedPlan());
}

TEST(PlanShards, KeepsPlansOfOneDeviceAReplica) {
  EXPECT_EQ(withShardDevices(groupedPlan(), 1), groupedPlan());
  auto same = withShardGroups(groupedPlan());
  ASSERT_TRUE(static_cast<bool>(same));
  EXPECT_EQ(*same, groupedPlan());
}

TEST(PlanShards, RefusesDevicesThatAreNoGroup) {
  for (int spoiled : {0, 1, 2}) {
    Plan plan = withShardDevices(groupedPlan(), 4);
    std::vector<DeviceRef> &devices = plan.stages[0].replicas[0].devices;
    if (spoiled == 0)
      devices[2].node = "other";
    else if (spoiled == 1)
      devices[3].index = 11;
    else
      for (DeviceRef &device : devices)
        ++device.index;
    EXPECT_NE(faultOf(withShardGroups(plan)).find("are not 4 neighbours of one type"),
              std::string::npos);
  }
}

/// A box of eight gpus, and of groups of two and four of them.
Cluster boxOfGroups() {
  Cluster cluster;
  for (int degree : {1, 2, 4}) {
    DeviceType type;
    type.name = degree == 1 ? "gpu" : shardTypeName("gpu", degree);
    type.shards = degree;
    type.ofType = degree == 1 ? -1 : 0;
    cluster.types.push_back(type);
  }
  NodeGroup box;
  box.name = "box";
  for (const DeviceType &type : cluster.types)
    box.devices[type.name] = 8 / type.shards;
  cluster.nodes = {box};
  return cluster;
}

TEST(PlanShards, NamesTheDevicesOfUnequalGroups) {
  Plan plan = groupedPlan();
  plan.stages.push_back(plan.stages[0]);
  plan.stages[0].replicas.pop_back(); // device 1
  plan.stages[1].replicas.pop_back();
  plan.stages[1].replicas[0].devices = {{shardTypeName("gpu", 4), "box", 1}};
  const Plan named = withShardDevices(plan, boxOfGroups());
  EXPECT_TRUE(hasUnequalDegrees(named));
  EXPECT_EQ(named.stages[0].replicas[0].devices, plan.stages[0].replicas[0].devices);
  EXPECT_EQ(named.stages[0].sharding.degree, 1);
  EXPECT_EQ(named.stages[1].sharding.degree, 4);
  const std::vector<DeviceRef> group{
      {"gpu", "box", 4}, {"gpu", "box", 5}, {"gpu", "box", 6}, {"gpu", "box", 7}};
  EXPECT_EQ(named.stages[1].replicas[0].devices, group);
  auto back = withShardGroups(named);
  ASSERT_TRUE(static_cast<bool>(back));
  EXPECT_EQ(*back, plan);
}

LayerGraph byDegree() {
  LayerGraph graph;
  for (const char *name : {"a", "b"}) {
    Layer layer;
    layer.name = layer.signature = name;
    layer.parameterBytes = Bytes(100);
    for (int degree : {2, 4}) {
      LayerShard shard;
      shard.degree = degree;
      shard.signature = layer.signature + "/" + std::to_string(degree);
      shard.parameterBytes = Bytes(100.0 / degree);
      shard.collectives = {{ShardCollective::AllReduce, false, 1, Bytes(8), Bytes()}};
      shard.kernels.emplace_back().kind = LayerKind::MatMul;
      shard.convolutionBytes = Bytes(degree);
      layer.shards.push_back(shard);
    }
    graph.layers.push_back(layer);
  }
  graph.layers[1].continuesStage = true;
  graph.fingerprint = "f";
  return graph;
}

TEST(LayerShards, AreReadAsWritten) {
  auto read = parseLayerGraph(toJson(byDegree()), "m.layers.json");
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(*read, byDegree());
  EXPECT_EQ(read->degrees(), (std::vector<int>{1, 2, 4}));
}

TEST(LayerShards, AreTheLayersOfADegree) {
  const LayerGraph local = byDegree().ofDegree(4);
  EXPECT_EQ(local.shardDegree, 4);
  EXPECT_EQ(local.degrees(), std::vector<int>{4});
  EXPECT_EQ(local.layers[1].name, "b");
  EXPECT_EQ(local.layers[1].shardDegree, 4);
  EXPECT_EQ(local.layers[1].signature, "b/4");
  EXPECT_EQ(local.layers[1].parameterBytes, Bytes(25));
  EXPECT_EQ(local.layers[1].shardCollectives.size(), 1u);
  EXPECT_EQ(local.layers[1].kernels.size(), 1u);
  EXPECT_EQ(local.layers[1].convolutionBytes, Bytes(4));
  EXPECT_FALSE(local.allowedCuts()[1]);
  EXPECT_EQ(byDegree().ofDegree(1).layers[0].parameterBytes, Bytes(100));
}

TEST(LayerShards, FaultsAreLocated) {
  const auto faultWhere = [](void (*spoil)(LayerGraph &)) {
    LayerGraph graph = byDegree();
    spoil(graph);
    return faultOf(parseLayerGraph(toJson(graph), "m.layers.json"));
  };
  const auto names = [](const std::string &fault, const char *place, const char *what) {
    return fault.find(place) != std::string::npos && fault.find(what) != std::string::npos;
  };
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.layers[1].shards.pop_back(); }),
                    "layers[1]", "have the degrees 2, and those of layer 'a' 2, 4"));
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.layers[1].shards.clear(); }),
                    "layers[1]", "have the degrees none"));
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.layers[0].shards[1].degree = 3; }),
                    "layers[0].shards[1]", "degree 3 after degree 2"));
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.layers[0].shards[1].degree = 2; }),
                    "layers[0].shards[1]", "degree 2 after degree 2"));
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.layers[0].shards[0].degree = 1; }),
                    "layers[0].shards[0]", "degree 1 after degree 1"));
  EXPECT_TRUE(names(
      faultWhere([](LayerGraph &graph) { graph.layers[0].shards[0].collectives[0].count = 0; }),
      "layers[0].shards[0]", "collective without kind or count"));
  EXPECT_TRUE(names(faultWhere([](LayerGraph &graph) { graph.shardDegree = 2; }), "layers[0]",
                    "'shardDegree'"));
}

} // namespace
