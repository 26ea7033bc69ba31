#include "ir/Cluster.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

namespace {
Cluster twoGroups() {
  Cluster cluster;
  cluster.name = "c";
  for (const char *name : {"a", "b", "unused"}) {
    DeviceType type;
    type.name = name;
    type.memory = Bytes(1e9);
    cluster.types.push_back(type);
  }
  Link link{"", BytesPerSecond(1e9), Seconds(1e-6), "", {}};
  NodeGroup pair, single;
  pair.name = "pair";
  pair.count = 2;
  pair.devices = {{"a", 2}, {"b", 1}};
  pair.link = link;
  single.name = "single";
  single.devices = {{"a", 1}};
  single.link = link;
  cluster.nodes = {pair, single};
  cluster.network = link;
  return cluster;
}

std::string problemOf(const Cluster &cluster) { return toText(cluster.verify()); }

TEST(Cluster, CountsItsDevices) {
  Cluster cluster = twoGroups();
  EXPECT_EQ(problemOf(cluster), "");
  EXPECT_EQ(cluster.typeIndex("b"), 1);
  EXPECT_EQ(cluster.typeIndex("x"), -1);
  EXPECT_EQ(cluster.deviceCount(0), 5);
  EXPECT_EQ(cluster.deviceCount(1), 2);
  EXPECT_EQ(cluster.deviceCount(2), 0);
  EXPECT_EQ(cluster.totalDevices(), 7);
}

TEST(Cluster, ListsDevicesNodeByNode) {
  std::vector<DeviceRef> expected = {{"a", "pair-0", 0},
                                     {"a", "pair-0", 1},
                                     {"a", "pair-1", 0},
                                     {"a", "pair-1", 1},
                                     {"a", "single", 0}};
  EXPECT_EQ(devicesOf(twoGroups(), 0), expected);
  EXPECT_TRUE(devicesOf(twoGroups(), 2).empty());
}

TEST(Cluster, RefusesTypesThatCannotBe) {
  Cluster cluster = twoGroups();
  cluster.types[0].memory = Bytes(0);
  EXPECT_NE(problemOf(cluster).find("[HP1216]"), std::string::npos);
  cluster.types[0].catalogue = "t4"; // will say how much
  EXPECT_EQ(problemOf(cluster), "");
  cluster.types[0].price = DollarsPerHour(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(problemOf(cluster).find("[HP1216]"), std::string::npos);
  cluster = twoGroups();
  cluster.types[1].rates = PeakRates();
  EXPECT_NE(problemOf(cluster).find("fp32"), std::string::npos);
  cluster = twoGroups();
  cluster.types[1].name = "a";
  EXPECT_NE(problemOf(cluster).find("[HP1103]"), std::string::npos);
}

TEST(Cluster, RefusesNodesThatCannotBe) {
  Cluster cluster = twoGroups();
  cluster.nodes[0].devices["nowhere"] = 1;
  EXPECT_NE(problemOf(cluster).find("[HP1213]"), std::string::npos);
  cluster = twoGroups();
  cluster.nodes[0].devices["a"] = 0;
  EXPECT_NE(problemOf(cluster).find("[HP1216]"), std::string::npos);
  cluster = twoGroups();
  cluster.nodes[0].count = 1'000'000; // two devices each
  EXPECT_NE(problemOf(cluster).find("[HP1216]"), std::string::npos);
  cluster = twoGroups();
  cluster.nodes[1].zone = "moon";
  EXPECT_NE(problemOf(cluster).find("[HP1215]"), std::string::npos);
  cluster = twoGroups();
  cluster.nodes[0].devices.clear();
  EXPECT_NE(problemOf(cluster).find("no devices"), std::string::npos);
  cluster = twoGroups();
  cluster.network = Link();
  EXPECT_NE(problemOf(cluster).find("network"), std::string::npos);
}

TEST(Cluster, NodeNamesAreUniqueOnceNumbered) {
  Cluster cluster = twoGroups();
  cluster.nodes[1].name = "pair";
  EXPECT_NE(problemOf(cluster).find("[HP1103]"), std::string::npos);
  cluster.nodes[1].name = "pair-1";
  EXPECT_NE(problemOf(cluster).find("[HP1103]"), std::string::npos);
  cluster.nodes[1].name = "pair-2";
  EXPECT_EQ(problemOf(cluster), "");
  cluster.nodes[1].name = "pair-01";
  EXPECT_EQ(problemOf(cluster), "");
}

TEST(Cluster, SeveralZonesMustBeNamed) {
  Cluster cluster = twoGroups();
  cluster.zones = {{"east", cluster.network, {}, {}}, {"west", cluster.network, {}, {}}};
  EXPECT_NE(problemOf(cluster).find("[HP1215]"), std::string::npos);
  cluster.nodes[0].zone = cluster.nodes[1].zone = "west";
  EXPECT_EQ(problemOf(cluster), "");
}
} // namespace
