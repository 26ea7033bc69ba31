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

TEST(PlanShards, RefusesUnlikeDegrees) {
  Plan plan = withShardDevices(groupedPlan(), 4);
  plan.stages.push_back(groupedPlan().stages[0]);
  EXPECT_NE(faultOf(withShardGroups(plan)).find("stages of unlike degrees"), std::string::npos);
}

} // namespace
