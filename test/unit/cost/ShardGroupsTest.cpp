#include "cost/ShardGroups.h"

#include "cost/ConstantCostModel.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

/// Nodes of five gpus and of one; 100 B/s and 1 s in a node, 8 B/s between nodes.
Cluster smallCluster() {
  Cluster cluster;
  DeviceType type;
  type.name = "gpu";
  type.memory = Bytes(1000);
  type.price = DollarsPerHour(3);
  cluster.types = {type};
  NodeGroup large, small;
  large.name = "large";
  large.count = 2;
  large.devices["gpu"] = 5;
  large.link = {"", BytesPerSecond(100), Seconds(1), ""};
  small = large;
  small.name = "small";
  small.devices["gpu"] = 1;
  small.link.bandwidth = BytesPerSecond(10);
  cluster.nodes = {large, small};
  cluster.network = {"", BytesPerSecond(8), Seconds(2), ""};
  Zone zone;
  zone.name = "west";
  zone.network = cluster.network;
  zone.pricePerGb = Dollars(0.5);
  cluster.zones = {zone};
  return cluster;
}

Layer layerOf(std::vector<LayerCollective> collectives) {
  Layer layer;
  layer.name = layer.signature = "l";
  layer.shardCollectives = std::move(collectives);
  return layer;
}

TEST(ShardGroups, CountsWholeGroupsOfANode) {
  Cluster cluster = smallCluster();
  auto groups = shardGroups(cluster, 2);
  ASSERT_TRUE(static_cast<bool>(groups));
  EXPECT_EQ(groups->shardDegree, 2);
  ASSERT_EQ(groups->nodes.size(), 1u) << "a node of one device has no group";
  EXPECT_EQ(groups->nodes[0].devices.at("gpu"), 2) << "the fifth is left over";
}

TEST(ShardGroups, HasThePriceOfAllAndTheMemoryOfOne) {
  auto groups = shardGroups(smallCluster(), 4);
  ASSERT_TRUE(static_cast<bool>(groups));
  EXPECT_EQ(groups->types[0].price, DollarsPerHour(12));
  EXPECT_EQ(groups->types[0].memory, Bytes(1000));
}

TEST(ShardGroups, DividesNetworksAndNotLinksOfNodes) {
  auto groups = shardGroups(smallCluster(), 4);
  ASSERT_TRUE(static_cast<bool>(groups));
  EXPECT_EQ(groups->network.bandwidth, BytesPerSecond(2));
  EXPECT_EQ(groups->network.latency, Seconds(2));
  EXPECT_EQ(groups->zones[0].network.bandwidth, BytesPerSecond(2));
  EXPECT_EQ(groups->zones[0].pricePerGb, Dollars(2));
  EXPECT_EQ(groups->nodes[0].link.bandwidth, BytesPerSecond(100));
}

TEST(ShardGroups, IsAsFastAsItsSlowestDevice) {
  Cluster cluster = smallCluster();
  cluster.nodes[0].speeds["gpu"] = {1, 0.5, 1, 0.8, 0.1};
  auto groups = shardGroups(cluster, 2);
  ASSERT_TRUE(static_cast<bool>(groups));
  EXPECT_EQ(groups->nodes[0].speeds.at("gpu"), std::vector<double>({0.5, 0.8}));
}

TEST(ShardGroups, RefusesMoreDevicesThanANodeHas) {
  auto groups = shardGroups(smallCluster(), 6);
  ASSERT_FALSE(static_cast<bool>(groups));
  EXPECT_NE(toText(groups.takeError()).find("no node has 6 devices of one type"),
            std::string::npos);
}

TEST(ShardedModel, AddsTheCollectivesOfEachPass) {
  ConstantCostModel layers({Seconds(1), Seconds(2)});
  ShardedModel model(layers, smallCluster(), 4);
  Layer layer = layerOf({{ShardCollective::AllReduce, false, 2, Bytes(200), Bytes(0)},
                         {ShardCollective::AllGather, true, 1, Bytes(0), Bytes(400)}});
  auto cost = model.price(layer, smallCluster().types[0], Samples(3));
  ASSERT_TRUE(static_cast<bool>(cost));
  // Two rings of six steps, and 2·3/4 of 600 bytes at 100 B/s.
  EXPECT_DOUBLE_EQ(cost->forward.value(), 3 * 1 + 2 * 6 * 1 + 1.5 * 600 / 100);
  // Three steps, and 3/4 of 400 bytes.
  EXPECT_DOUBLE_EQ(cost->backward.value(), 3 * 2 + 3 * 1 + 0.75 * 400 / 100);
}

TEST(ShardedModel, TakesEachCollectiveAtItsOwnSpeed) {
  Cluster cluster = smallCluster();
  for (NodeGroup &node : cluster.nodes) {
    node.link.reduceScatter = {BytesPerSecond(50), Seconds(2)};
    node.link.allGather = {BytesPerSecond(10), Seconds(7)};
  }
  ConstantCostModel layers({Seconds(1), Seconds(2)});
  ShardedModel model(layers, cluster, 4);
  Layer layer = layerOf({{ShardCollective::ReduceScatter, false, 2, Bytes(200), Bytes(0)},
                         {ShardCollective::AllGather, true, 1, Bytes(0), Bytes(400)}});
  auto cost = model.price(layer, cluster.types[0], Samples(3));
  ASSERT_TRUE(static_cast<bool>(cost));
  // Two times three steps of 2 s, and 3/4 of 600 bytes at 50 B/s.
  EXPECT_DOUBLE_EQ(cost->forward.value(), 3 * 1 + 2 * 3 * 2 + 0.75 * 600 / 50);
  EXPECT_DOUBLE_EQ(cost->backward.value(), 3 * 2 + 3 * 7 + 0.75 * 400 / 10);
}

TEST(ShardedModel, LeavesLayersWithoutCollectivesAlone) {
  ConstantCostModel layers({Seconds(1), Seconds(2)});
  ShardedModel model(layers, smallCluster(), 4);
  auto cost = model.price(layerOf({}), smallCluster().types[0], Samples(3));
  ASSERT_TRUE(static_cast<bool>(cost));
  EXPECT_EQ(cost->forward, Seconds(3));
}

} // namespace
