// Devices of one type in unlike nodes.
#include "ir/NodeClasses.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
Cluster unlikeNodes() {
  Cluster cluster;
  DeviceType v100, cpu;
  v100.name = "v100";
  cpu.name = "cpu";
  cluster.types = {v100, cpu};
  Link link{"", BytesPerSecond(1e9), Seconds(0), ""};
  for (auto [name, count, devices] : {std::tuple("big", 2, 8), {"small", 1, 1}, {"other", 1, 8}}) {
    NodeGroup group;
    group.name = name;
    group.count = count;
    group.devices = {{"v100", devices}, {"cpu", 1}};
    group.link = link;
    cluster.nodes.push_back(group);
  }
  return cluster;
}

std::vector<std::string> namesOf(const Cluster &cluster) {
  std::vector<std::string> names;
  for (const DeviceType &type : cluster.types)
    names.push_back(type.name);
  return names;
}
} // namespace

TEST(NodeClasses, nodesOfUnlikeSizesAreApart) {
  Cluster cluster = separateNodeClasses(unlikeNodes());
  EXPECT_EQ(namesOf(cluster), (std::vector<std::string>{"v100 in big", "v100 in small", "cpu"}));
  EXPECT_EQ(cluster.deviceCount(0), 24);
  EXPECT_EQ(cluster.deviceCount(1), 1);
  EXPECT_EQ(cluster.deviceCount(2), 4) << "alike in all";
  EXPECT_EQ(cluster.types[1].stated(), "v100");
  EXPECT_EQ(cluster.types[2].stated(), "cpu");
  EXPECT_EQ(cluster.typesCalled("v100"), (std::vector<int>{0, 1}));
}

TEST(NodeClasses, linksTellNodesApart) {
  Cluster cluster = unlikeNodes();
  cluster.links.push_back({"big", "small", cluster.nodes[0].link, {}});
  EXPECT_EQ(namesOf(separateNodeClasses(cluster)),
            (std::vector<std::string>{"v100 in big", "v100 in small", "v100 in other", "cpu in big",
                                      "cpu in small", "cpu in other"}));
  cluster.links.front().from = "cpu"; // all of one type
  cluster.links.front().to = "v100";
  EXPECT_EQ(namesOf(separateNodeClasses(cluster)),
            (std::vector<std::string>{"v100 in big", "v100 in small", "cpu"}));
}

TEST(NodeClasses, devicesKeepTheirNames) {
  Cluster plain = unlikeNodes(), cluster = separateNodeClasses(plain);
  EXPECT_EQ(devicesOf(cluster, 1), (std::vector<DeviceRef>{{"v100", "small", 0}}));
  for (const DeviceRef &device : devicesOf(plain, 0))
    EXPECT_EQ(cluster.typeIndex(device), device.node == "small" ? 1 : 0);
  EXPECT_EQ(cluster.typeIndex(DeviceRef{"v100", "nowhere", 0}), -1);
  EXPECT_EQ(cluster.typeIndex(DeviceRef{"cpu", "small", 0}), 2);
}

TEST(NodeClasses, namesOfNodesAreNumberedFromNought) {
  Cluster cluster = unlikeNodes();
  const NodeGroup &two = cluster.nodes[0], &one = cluster.nodes[1];
  EXPECT_TRUE(isNodeOf(two, "big-0") && isNodeOf(two, "big-1") && isNodeOf(one, "small"));
  for (const char *other : {"big", "big-2", "big-01", "big--1", "big-", "big-1x", "big-1 "})
    EXPECT_FALSE(isNodeOf(two, other)) << other;
  EXPECT_FALSE(isNodeOf(one, "small-0"));
}

TEST(NodeClasses, noTypeHasTheNameOfAClass) {
  Cluster cluster = unlikeNodes();
  DeviceType own;
  own.name = "v100 in small";
  cluster.types.push_back(own);
  cluster.nodes[1].devices["v100 in small"] = 3;
  cluster = separateNodeClasses(cluster);
  EXPECT_EQ(namesOf(cluster),
            (std::vector<std::string>{"v100 in big", "v100 in small'", "cpu", "v100 in small"}));
  EXPECT_EQ(cluster.deviceCount(1), 1);
  EXPECT_EQ(cluster.deviceCount(3), 3);
}

TEST(NodeClasses, linksAndZonesSetApartToo) {
  Cluster cluster = unlikeNodes();
  cluster.nodes[2].link.bandwidth = BytesPerSecond(2e9);
  EXPECT_EQ(separateNodeClasses(cluster).types.size(), 5u);
  cluster = unlikeNodes();
  cluster.nodes[2].zone = "b";
  EXPECT_EQ(separateNodeClasses(cluster).types.size(), 5u);
}

TEST(NodeClasses, devicesOfUnlikeSpeedsAreApart) {
  Cluster cluster;
  DeviceType core;
  core.name = "core";
  core.speed = 2;
  cluster.types = {core};
  NodeGroup group;
  group.name = "host";
  group.count = 2;
  group.devices = {{"core", 3}};
  group.speeds = {{"core", {1, 0.5, 1}}};
  cluster.nodes = {group};
  Cluster apart = separateNodeClasses(cluster);
  EXPECT_EQ(namesOf(apart), (std::vector<std::string>{"core in host at 1", "core in host at 0.5"}));
  EXPECT_EQ(apart.types[0].speed, 2);
  EXPECT_EQ(apart.types[1].speed, 1);
  EXPECT_EQ(apart.deviceCount(0), 4);
  EXPECT_EQ(devicesOf(apart, 0), (std::vector<DeviceRef>{{"core", "host-0", 0},
                                                         {"core", "host-0", 2},
                                                         {"core", "host-1", 0},
                                                         {"core", "host-1", 2}}));
  EXPECT_EQ(apart.typeIndex(DeviceRef{"core", "host-1", 1}), 1);
  EXPECT_EQ(apart.typeIndex(DeviceRef{"core", "host-1", 2}), 0);
  EXPECT_EQ(apart.typeIndex(DeviceRef{"core", "host-1", 3}), -1);
  cluster.nodes[0].speeds = {{"core", {0.5, 0.5, 0.5}}};
  EXPECT_EQ(separateNodeClasses(cluster).types[0].speed, 1) << "of all, they are the type's";
}
