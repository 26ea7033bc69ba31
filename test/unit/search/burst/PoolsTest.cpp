// Which pools of devices bursts may have, and how samples lie on their devices.
#include "search/burst/Pools.h"

#include "cost/ConstantCostModel.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace heterplan;

namespace {
/// One layer on two types: 'quick' takes a second for a sample, 'slow' three; a node of each.
class TwoTypes {
public:
  TwoTypes(int quick, int slow, int64_t batch) {
    layer.name = layer.signature = "layer";
    costs.layer("layer", {Seconds(0.5), Seconds(0.5)}).speed("slow", 1.0 / 3);
    add("slow", slow, 1); // the first of the cluster
    add("quick", quick, 4);
    cluster.name = "two";
    cluster.network = cluster.nodes.front().link;
    request.globalBatch = Samples(batch);
    request.schedule = ScheduleChoice::Burst;
    request.iterationModel = IterationModel::Burst;
  }

  const Problem &make() {
    llvm::ExitOnError check;
    LayerGraph graph;
    graph.model = "one";
    graph.layers = {layer};
    problem = check(Problem::create(graph, cluster, costs, request));
    return *problem;
  }

  std::vector<Pool> pools() {
    llvm::ExitOnError check;
    return check(poolsOf(make()));
  }

  Cluster cluster;
  Request request;
  ConstantCostModel costs;

private:
  void add(const char *name, int count, double price) {
    DeviceType &type = cluster.types.emplace_back();
    type.name = name;
    type.memory = Bytes(1e9);
    type.price = DollarsPerHour(price);
    NodeGroup &node = cluster.nodes.emplace_back();
    node.name = std::string("node-") + name;
    node.devices[name] = count;
    node.link = {"", BytesPerSecond(1e9), Seconds(1e-6), ""};
  }

  Layer layer;
  std::optional<Problem> problem;
};

std::vector<int64_t> sharesOf(const Pool &pool, int width) {
  std::vector<int64_t> result;
  for (int device = 0; device < width; ++device)
    result.push_back(pool.kindOf(width, device).samples);
  return result;
}

TEST(Pools, AreOfEachTypeAndOfAllWithTheFastestFirst) {
  TwoTypes two(3, 5, 64);
  std::vector<Pool> pools = two.pools();
  ASSERT_EQ(pools.size(), 4u); // slow, quick, all, a half of each
  EXPECT_EQ(pools[0].widths(), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(pools[1].widths(), (std::vector<int>{1, 2}));
  EXPECT_EQ(pools[2].widths(), (std::vector<int>{1, 2, 3, 4, 5, 7}));
  EXPECT_EQ(pools[3].widths(), (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(pools[1].isMixed());
  EXPECT_EQ(pools[2].device(2).type, "quick");
  EXPECT_EQ(pools[2].device(3).type, "slow");
  EXPECT_EQ(pools[2].price(4), DollarsPerHour(3 * 4 + 1));
}

TEST(Pools, AnyNumberOfDevicesIsAWidthWhereItIsAsked) {
  TwoTypes two(3, 3, 5);
  two.request.widths = Widths::Any;
  EXPECT_EQ(two.pools()[2].widths(), (std::vector<int>{1, 2, 3, 4, 5})); // each has a sample
}

TEST(Pools, OrderIsThatOfTheReversedBits) {
  EXPECT_EQ(Pool::order(1), std::vector<int>{0});
  EXPECT_EQ(Pool::order(6), (std::vector<int>{0, 4, 2, 1, 5, 3}));
  EXPECT_EQ(Pool::order(8), (std::vector<int>{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(Pools, SlowDevicesHaveFewerSamples) {
  TwoTypes two(2, 4, 32);
  std::vector<Pool> pools = two.pools();
  const Pool &pool = pools[2];
  EXPECT_EQ(sharesOf(pool, 2), (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(sharesOf(pool, 4), (std::vector<int64_t>{12, 12, 4, 4}));
  EXPECT_EQ(pool.share(4), Samples(12));
  // In the order of the cluster, for the cost of a stage.
  EXPECT_EQ(pool.shares(4)[0], (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(pool.shares(4)[1], (std::vector<int64_t>{12, 12}));
}

/// Five samples on a quick device and three on one of three fifths of its speed are done at once.
TEST(Pools, RoundingDecidesNoTie) {
  for (int i = 1; i <= 100; ++i) {
    TwoTypes two(1, 1, 7);
    two.request.widths = Widths::Any;
    two.costs.layer("layer", {Seconds(i / 700.0), Seconds(i / 300.0)}).speed("slow", 0.6);
    EXPECT_EQ(sharesOf(two.pools()[2], 2), (std::vector<int64_t>{4, 3})) << i;
  }
}

/// A fast device with 16 samples on two devices keeps 12 of them on four, and a slow one gets the
/// other 4.
TEST(Pools, SamplesStayWhereTheyAre) {
  TwoTypes two(2, 4, 32);
  std::vector<Pool> pools = two.pools();
  const Pool &pool = pools[2];
  EXPECT_EQ(pool.moved(2, 4).sent, Samples(4));
  EXPECT_EQ(pool.moved(2, 4).received, Samples(4));
  EXPECT_EQ(pool.missing({0, 4}, {0, 2}, 0), 0);
  EXPECT_EQ(pool.missing({0, 4}, {0, 2}, 3), 4);
}

TEST(Pools, KeepBudgetsPinsAndLimits) {
  TwoTypes two(3, 5, 64);
  two.request.maxCostPerHour = DollarsPerHour(9);
  std::vector<Pool> pools = two.pools();
  for (const Pool &pool : pools)
    EXPECT_LE(pool.price(pool.widths().back()), DollarsPerHour(9));
  EXPECT_EQ(pools[2].widths(), (std::vector<int>{1, 2, 3})); // two quick ones and a slow one
  two.request.maxCostPerHour = {};
  two.request.deviceLimits = {{"slow", 1}};
  EXPECT_EQ(two.pools()[2].widths(), (std::vector<int>{1, 2, 3, 4}));
  two.request.pins = {{"layer", "slow"}};
  pools = two.pools();
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].device(0).type, "slow");
}

TEST(Pools, WhatNoCostIsKnownOfIsAnError) {
  TwoTypes two(1, 1, 8);
  two.costs = {};
  llvm::Expected<std::vector<Pool>> pools = poolsOf(two.make());
  ASSERT_FALSE(pools);
  EXPECT_NE(toText(pools.takeError()).find("has no time on device type"), std::string::npos);
}
} // namespace
