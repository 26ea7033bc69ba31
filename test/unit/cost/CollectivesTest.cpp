#include "cost/Collectives.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// `count` nodes of `perNode` devices; 100 B/s and 1 s in a node, 10 B/s and 2 s between nodes.
Cluster clusterOf(int count, int perNode) {
  Cluster cluster;
  DeviceType type;
  type.name = "gpu";
  cluster.types.push_back(type);
  NodeGroup group;
  group.name = "node";
  group.count = count;
  group.devices["gpu"] = perNode;
  group.link = {"", BytesPerSecond(100), Seconds(1), ""};
  cluster.nodes.push_back(group);
  cluster.network = {"", BytesPerSecond(10), Seconds(2), ""};
  return cluster;
}
DeviceGroup devices(int count) { return DeviceGroup{{{0, count}}}; }
} // namespace

TEST(Collectives, oneDeviceHasNothingToReduce) {
  EXPECT_EQ(allReduceTime(clusterOf(4, 2), devices(1), Bytes(1000)), Seconds(0));
  EXPECT_EQ(allReduceTime(clusterOf(4, 2), devices(2), Bytes(0)), Seconds(0));
}

TEST(Collectives, ringInOneNode) {
  // 2·3/4 · 200/100 + 6·1
  EXPECT_DOUBLE_EQ(allReduceTime(clusterOf(1, 4), devices(4), Bytes(200)).value(), 9);
}

TEST(Collectives, severalOneAfterAnother) {
  CollectiveCost ring = allReduceCost(clusterOf(1, 4), devices(4));
  EXPECT_DOUBLE_EQ(ring.time(2, Bytes(200)).value(), 3 + 12);
  EXPECT_EQ(ring.time(0, Bytes(0)), Seconds(0));
}

TEST(Collectives, ringOverTheNetwork) {
  // 2·2/3 · 300/10 + 4·2
  EXPECT_DOUBLE_EQ(allReduceTime(clusterOf(3, 1), devices(3), Bytes(300)).value(), 48);
}

TEST(Collectives, pairsOfAMeshHaveAPartOfItsLinks) {
  Cluster cluster = clusterOf(1, 4);
  cluster.nodes[0].link.pairBandwidth = BytesPerSecond(20);
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, devices(4), Bytes(200)).value(), 9); // 2·3/4·200/100 + 6
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, devices(2), Bytes(200)).value(), 12); // 200/20 + 2
  EXPECT_EQ(transferPath(cluster, devices(1), devices(1)).link.bandwidth, BytesPerSecond(20));
}

TEST(Collectives, nodesReachThemselvesWithoutTheNetwork) {
  // Two nodes with a fast link between them; the slow network of the cluster lies between no two.
  Cluster cluster = clusterOf(1, 2);
  NodeGroup other = cluster.nodes[0];
  other.name = "other";
  cluster.nodes.push_back(other);
  cluster.links.push_back({"node", "other", {"", BytesPerSecond(50), Seconds(1), ""}, {}});
  // in a node 2·1/2·200/100 + 2·1, between the two 2·1/2·200/50 + 2·1
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, devices(4), Bytes(200)).value(), 4 + 6);
}

TEST(Collectives, aNodeWithTwoSpeedsOfATypeIsOneNode) {
  // One node with a slow and a fast device of a type, and two nodes of another type. Nothing goes
  // over the slow network from the first type to its own node.
  Cluster cluster = clusterOf(1, 1);
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].name = "fast gpu";
  cluster.types[1].statedName = "gpu";
  cluster.types.push_back(cluster.types[0]);
  cluster.types[2].name = "other";
  cluster.nodes[0].devices["fast gpu"] = 1;
  NodeGroup others = cluster.nodes[0];
  others.name = "others";
  others.count = 2;
  others.devices = {{"other", 1}};
  cluster.nodes.push_back(others);
  cluster.links.push_back({"gpu", "node", {"", BytesPerSecond(1), Seconds(1), ""}, {}});
  // over four places 2·3/4·200/10 + 6·2
  const DeviceGroup all{{{0, 1}, {1, 1}, {2, 2}}};
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, all, Bytes(200)).value(), 30 + 12);
}

TEST(Collectives, hierarchicalAcrossNodes) {
  // in the node 2·1/2·200/100 + 2·1, between two nodes 2·1/2·200/10 + 2·2
  EXPECT_DOUBLE_EQ(allReduceTime(clusterOf(2, 2), devices(4), Bytes(200)).value(), 4 + 24);
}

TEST(Collectives, aGroupMayBeInMoreNodesThanItFills) {
  Cluster cluster = clusterOf(4, 2);
  DeviceGroup spread = groupOf(cluster, {{"gpu", "node-0", 1}, {"gpu", "node-2", 0}});
  GroupShape shape = shapeOf(cluster, spread);
  EXPECT_EQ(shape.nodes, 2);
  EXPECT_EQ(shape.devicesPerNode, 1);
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, spread, Bytes(200)).value(), 24); // between nodes only
  EXPECT_EQ(transferPath(cluster, spread, devices(2)).senders, 1);
  EXPECT_EQ(groupOf(cluster, {{"gpu", "node-1", 0}, {"gpu", "node-1", 1}}), devices(2));
  EXPECT_EQ(groupOf(cluster, {{"gpu", "node-0", 0}, {"gpu", "node-0", 1}, {"gpu", "node-1", 1}}),
            devices(3));
}

TEST(Collectives, aRingTakesTheMeasuredSpeedOfAllReduces) {
  Cluster cluster = clusterOf(2, 2);
  cluster.nodes[0].link.allReduce = {BytesPerSecond(50), Seconds(3)};
  cluster.nodes[0].link.provenance = Provenance::Measured;
  // in the node 2·1/2·200/50 + 2·3, between two nodes as messages
  EXPECT_DOUBLE_EQ(allReduceTime(cluster, devices(4), Bytes(200)).value(), 10 + 24);
  EXPECT_EQ(allReduceCost(cluster, devices(4)).provenance, Provenance::Modelled);
  EXPECT_EQ(lookupCost(cluster, devices(4)).provenance, Provenance::Modelled);
  cluster.nodes[0].count = 1;
  EXPECT_EQ(allReduceCost(cluster, devices(2)).provenance, Provenance::Measured);
  EXPECT_EQ(lookupCost(cluster, devices(2)).provenance, Provenance::Measured);
  EXPECT_EQ(transferTime(cluster, devices(1), Samples(1), devices(1), Samples(1), Bytes(100), {}),
            Seconds(2)); // messages take what they took
}

TEST(Collectives, collectivesOfShardsTakeTheirMeasuredSpeed) {
  Cluster cluster = clusterOf(2, 2);
  Link &link = cluster.nodes[0].link;
  link.allReduce = {BytesPerSecond(50), Seconds(3)};
  auto time = [&](ShardCollective collective) {
    return shardCollectiveCost(cluster, devices(4), collective).time(Bytes(200)).value();
  };
  EXPECT_DOUBLE_EQ(time(ShardCollective::ReduceScatter), (10.0 + 24) / 2) << "half an all-reduce";
  EXPECT_DOUBLE_EQ(time(ShardCollective::AllGather), (10.0 + 24) / 2);
  link.reduceScatter = {BytesPerSecond(20), Seconds(6)};
  link.allGather = {BytesPerSecond(40), Seconds(4)};
  // in the node 1/2·200/20 + 6 and 1/2·200/40 + 4, between two nodes as messages
  EXPECT_DOUBLE_EQ(time(ShardCollective::ReduceScatter), 11 + 12);
  EXPECT_DOUBLE_EQ(time(ShardCollective::AllGather), 6.5 + 12);
  EXPECT_DOUBLE_EQ(time(ShardCollective::AllReduce), 10 + 24);
  const Link shared = partOf(link, 2);
  EXPECT_EQ(shared.reduceScatter->bandwidth, BytesPerSecond(10));
  EXPECT_EQ(shared.allGather->bandwidth, BytesPerSecond(20));
  EXPECT_TRUE(slower(link, link).allGather == link.allGather);
  EXPECT_FALSE(slower(link, Link()).allGather) << "as of its all-reduces";
}

TEST(Collectives, lookupsInOneNode) {
  // 3/4 of the rows come from three others; how many and which is said first
  EXPECT_DOUBLE_EQ(lookupGradientCost(clusterOf(1, 4), devices(4)).time(Bytes(400)).value(), 3 + 3);
  EXPECT_DOUBLE_EQ(lookupCost(clusterOf(1, 4), devices(4)).time(Bytes(400)).value(), 3 + 9);
  EXPECT_EQ(lookupCost(clusterOf(1, 4), devices(1)).time(Bytes(400)), Seconds(0));
  EXPECT_EQ(lookupCost(clusterOf(1, 4), devices(4)).time(Bytes(0)), Seconds(0));
}

TEST(Collectives, lookupsTakeTheirMeasuredSpeed) {
  Cluster cluster = clusterOf(1, 4);
  cluster.nodes[0].link.lookup = {{BytesPerSecond(50), Seconds(2)}, Seconds(0.5)};
  const TableRows rows{10, Bytes(400)};
  // 3/4 of the bytes; three messages, or nine; every row that is read
  EXPECT_DOUBLE_EQ(lookupGradientCost(cluster, devices(4)).time(rows).value(), 6 + 6 + 5);
  EXPECT_DOUBLE_EQ(lookupCost(cluster, devices(4)).time(rows).value(), 6 + 18 + 5);
  EXPECT_EQ(lookupCost(cluster, devices(1)).time(rows), Seconds(0));
  EXPECT_DOUBLE_EQ(lookupCost(clusterOf(1, 4), devices(4)).time(rows).value(), 3 + 9);
  // across nodes the network has figures of its own, or those of messages
  Cluster several = clusterOf(2, 2);
  several.nodes[0].link.lookup = {{BytesPerSecond(50), Seconds(2)}, Seconds(0.5)};
  double inside = 400 * 0.25 / 50 + 2, outside = 400 * 0.5 * 2 / 10 + 2 * 2;
  EXPECT_DOUBLE_EQ(lookupGradientCost(several, devices(4)).time(rows).value(),
                   inside + outside + 5);
  several.network.lookup = {{BytesPerSecond(20), Seconds(1)}, Seconds(0.25)};
  outside = 400 * 0.5 * 2 / 20 + 2 * 1;
  EXPECT_DOUBLE_EQ(lookupGradientCost(several, devices(4)).time(rows).value(),
                   inside + outside + 5);
  EXPECT_DOUBLE_EQ(lookupCost(several, devices(4)).time(rows).value(),
                   2 + 400 * 0.5 * 2 / 20 + 3 * (2 + 2 * 1) + 10 * 0.5);
}

TEST(Collectives, lookupsAcrossNodesShareTheInterface) {
  // a quarter from the neighbour, half from the two of the other node, through one interface
  double inside = 400 * 0.25 / 100 + 1, outside = 400 * 0.5 * 2 / 10 + 2 * 2;
  EXPECT_DOUBLE_EQ(lookupGradientCost(clusterOf(2, 2), devices(4)).time(Bytes(400)).value(),
                   inside + outside);
}

TEST(Collectives, transferInOneNodeUsesALinkForEachDevice) {
  Seconds time = transferTime(clusterOf(1, 4), devices(1), Samples(6), devices(3), Samples(2),
                              Bytes(50), Bytes(0));
  EXPECT_DOUBLE_EQ(time.value(), 1 + 300.0 / 100);
}

TEST(Collectives, transferBetweenNodesSharesTheInterface) {
  Seconds time = transferTime(clusterOf(4, 2), devices(2), Samples(3), devices(4), Samples(2),
                              Bytes(50), Bytes(10));
  EXPECT_DOUBLE_EQ(time.value(), 2 + (2 * 3 * 50 + 2 * 10) / 10.0);
  EXPECT_EQ(transferTime(clusterOf(4, 2), devices(2), Samples(3), devices(4), Samples(2), Bytes(0),
                         Bytes(0)),
            Seconds(0));
}

TEST(Collectives, stagesInOneNodeOfSeveralUseItsLink) {
  Cluster cluster = clusterOf(4, 4);
  DeviceGroup before = devices(1), behind = devices(3);
  EXPECT_TRUE(mayMeetInNodes(cluster, 0, 0));
  EXPECT_TRUE(mayShareNode(cluster, before, behind));
  EXPECT_FALSE(mayShareNode(cluster, devices(2), behind)) << "five devices";
  EXPECT_FALSE(mayShareNode(cluster, before, devices(5))) << "in two nodes";
  before.besideNext = behind.besideBefore = true;
  auto time = [&] {
    return transferTime(cluster, before, Samples(6), behind, Samples(2), Bytes(50), Bytes(0));
  };
  EXPECT_DOUBLE_EQ(time().value(), 1 + 300.0 / 100);
  EXPECT_LE(leastTransferTime(cluster, behind, /*inNode=*/true, Samples(2), Bytes(50), Bytes(0)),
            time());
  std::swap(before, behind); // neither says so of that side
  EXPECT_DOUBLE_EQ(time().value(), 2 + 18 * 50 / 10.0);
  TransferPath path{cluster.network, 3, 1};
  EXPECT_EQ(path.reversed().time(Samples(6), Samples(2), Bytes(50), Bytes(0)),
            path.time(Samples(2), Samples(6), Bytes(50), Bytes(0)));
  EXPECT_FALSE(mayMeetInNodes(clusterOf(1, 4), 0, 0)) << "there is no other node";
}

TEST(Collectives, stagesInOneNodeOfSeveralUseTheNetworkWhereItIsFaster) {
  Cluster cluster = clusterOf(4, 4);
  cluster.nodes[0].link.latency = cluster.network.latency * 10;
  DeviceGroup before = devices(1), behind = devices(3);
  before.besideNext = behind.besideBefore = true;
  const TransferPath path = transferPath(cluster, before, behind);
  const Seconds ofLink = cluster.nodes[0].link.latency, ofNetwork = cluster.network.latency;
  EXPECT_DOUBLE_EQ(path.time(Samples(6), Samples(2), Bytes(1), Bytes(0)).value(),
                   ofNetwork.value() + 6 / 10.0);
  EXPECT_DOUBLE_EQ(path.time(Samples(6), Samples(2), Bytes(50), Bytes(0)).value(),
                   ofLink.value() + 300 / 100.0);
  const TransferPath back = path.reversed();
  EXPECT_DOUBLE_EQ(back.time(Samples(2), Samples(6), Bytes(1), Bytes(0)).value(),
                   ofNetwork.value() + 6 / 10.0);
  for (double bytes : {0.001, 1.0, 10.0, 100.0})
    EXPECT_LE(
        leastTransferTime(cluster, behind, /*inNode=*/true, Samples(2), Bytes(bytes), Bytes(0)),
        path.time(Samples(6), Samples(2), Bytes(bytes), Bytes(0)));
}

namespace {
/// Types a, b and c in two nodes of one device each; a and b in the zone "near", c in "far".
Cluster threeTypes() {
  Cluster cluster = clusterOf(2, 1);
  NodeGroup group = cluster.nodes.front();
  cluster.types.clear();
  cluster.nodes.clear();
  for (const char *name : {"a", "b", "c"}) {
    cluster.types.emplace_back().name = name;
    group.name = std::string("nodes-") + name;
    group.devices = {{name, 1}};
    group.zone = *name == 'c' ? "far" : "near";
    cluster.nodes.push_back(group);
  }
  cluster.zones = {{"near", {"", BytesPerSecond(50), Seconds(0.5), ""}, {}, {}},
                   {"far", {"", BytesPerSecond(40), Seconds(0.5), ""}, {}, {}}};
  return cluster;
}

BytesPerSecond bandwidthBetween(const Cluster &cluster, DeviceGroup from, DeviceGroup to) {
  EXPECT_EQ(transferPath(cluster, from, to).link.bandwidth,
            transferPath(cluster, to, from).link.bandwidth);
  return transferPath(cluster, from, to).link.bandwidth;
}

void addLink(Cluster &cluster, const char *from, const char *to, double bandwidth) {
  cluster.links.push_back({from, to, {"", BytesPerSecond(bandwidth), Seconds(0.25), ""}, {}});
}
} // namespace

TEST(Collectives, theFirstLinkBetweenTwoPlacesCounts) {
  Cluster cluster = threeTypes();
  DeviceGroup a{{{0, 1}}}, b{{{1, 1}}}, c{{{2, 1}}}, ab{{{0, 1}, {1, 1}}};
  EXPECT_EQ(bandwidthBetween(cluster, a, b), BytesPerSecond(50)) << "their zone's";
  EXPECT_EQ(bandwidthBetween(cluster, a, c), BytesPerSecond(10)) << "the cluster's";
  addLink(cluster, "near", "far", 20);
  addLink(cluster, "nodes-c", "b", 5); // too late: both are between those zones
  EXPECT_EQ(bandwidthBetween(cluster, a, c), BytesPerSecond(20));
  EXPECT_EQ(bandwidthBetween(cluster, b, c), BytesPerSecond(20));
  EXPECT_EQ(bandwidthBetween(cluster, a, b), BytesPerSecond(50));
  std::swap(cluster.links[0], cluster.links[1]);
  EXPECT_EQ(bandwidthBetween(cluster, a, c), BytesPerSecond(20));
  EXPECT_EQ(bandwidthBetween(cluster, b, c), BytesPerSecond(5));
  EXPECT_EQ(bandwidthBetween(cluster, ab, c), BytesPerSecond(5)) << "the slowest of both";
}

TEST(Collectives, aPlaceMayHaveANetworkOfItsOwn) {
  Cluster cluster = threeTypes();
  addLink(cluster, "a", "a", 30);
  EXPECT_EQ(collectiveLink(cluster, {{{0, 2}}}).bandwidth, BytesPerSecond(30));
  EXPECT_EQ(collectiveLink(cluster, {{{1, 2}}}).bandwidth, BytesPerSecond(50));
  EXPECT_EQ(collectiveLink(cluster, {{{0, 1}, {1, 1}}}).bandwidth, BytesPerSecond(30));
}

TEST(Collectives, linksTellPlacesApartAndBoundTransfers) {
  Cluster cluster = threeTypes();
  DeviceGroup a{{{0, 1}}}, b{{{1, 1}}};
  EXPECT_EQ(placeOf(cluster, a), placeOf(cluster, b));
  addLink(cluster, "nodes-b", "far", 1000);
  EXPECT_NE(placeOf(cluster, a), placeOf(cluster, b));
  Seconds least = leastTransferTime(cluster, b, /*inNode=*/false, Samples(1), Bytes(100), Bytes(0));
  EXPECT_LE(least, transferTime(cluster, b, Samples(1), {{{2, 1}}}, Samples(1), Bytes(100), {}));
}
