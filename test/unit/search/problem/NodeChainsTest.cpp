#include "search/problem/NodeChains.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
constexpr int gpu = 0, cpu = 1, tpu = 2;

/// `count` nodes of so many of the first two types, and one with a gpu and a tpu.
Cluster clusterOf(int count, int gpus, int cpus) {
  Cluster cluster;
  for (const char *name : {"gpu", "cpu", "tpu"})
    cluster.types.emplace_back().name = name;
  const Link fast{"", BytesPerSecond(100), Seconds(1), ""};
  NodeGroup &both = cluster.nodes.emplace_back();
  both.name = "both";
  both.count = count;
  both.devices = {{"gpu", gpus}, {"cpu", cpus}};
  both.link = fast;
  NodeGroup other = both;
  other.name = "other";
  other.count = 1;
  other.devices = {{"gpu", gpus}, {"tpu", 1}};
  cluster.nodes.push_back(other);
  cluster.network = {"", BytesPerSecond(10), Seconds(2), ""};
  return cluster;
}
} // namespace

TEST(NodeChains, typesThatMeetInANodeAreLinked) {
  const NodeChains chains(clusterOf(2, 2, 1), {6, 2, 1});
  EXPECT_TRUE(chains.areLinked(gpu, gpu));
  EXPECT_TRUE(chains.areLinked(gpu, cpu));
  EXPECT_TRUE(chains.areLinked(tpu, gpu)) << "there is one tpu, but gpus are elsewhere, too";
  EXPECT_FALSE(chains.areLinked(cpu, tpu)) << "no node has both";
  EXPECT_FALSE(chains.areLinked(cpu, cpu)) << "no node has two";
  EXPECT_EQ(chains.familyOf(cpu), (llvm::ArrayRef<int>{gpu, cpu, tpu}));
  EXPECT_FALSE(NodeChains(clusterOf(2, 2, 1), {6, 0, 1}).areLinked(gpu, cpu)) << "none may be used";
}

TEST(NodeChains, aChainIsOneNumber) {
  const NodeChains chains(clusterOf(2, 2, 1), {6, 2, 1});
  const int both = chains.chainOf(gpu, 1) + chains.chainOf(cpu, 1);
  EXPECT_EQ(chains.devicesOf(both, gpu), 1);
  EXPECT_EQ(chains.devicesOf(both, cpu), 1);
  EXPECT_EQ(chains.devicesOf(both, tpu), 0);
  EXPECT_EQ(chains.chainOf(DeviceGroup{{{gpu, 1}, {cpu, 1}}}), both);
  EXPECT_TRUE(chains.fitTogether(both, chains.chainOf(gpu, 1), gpu));
  EXPECT_FALSE(chains.fitTogether(both, chains.chainOf(gpu, 2), gpu));
  EXPECT_FALSE(chains.fitTogether(both, chains.chainOf(cpu, 1), cpu));
  EXPECT_TRUE(chains.isWithin(chains.chainOf(gpu, 1), both, gpu));
  EXPECT_FALSE(chains.isWithin(chains.chainOf(gpu, 2), both, gpu));
  EXPECT_EQ(chains.devicesOf(chains.wholeNode(cpu), gpu), 2);
}

TEST(NodeChains, familiesOfManyChainsAreDivided) {
  const NodeChains few(clusterOf(2, 7, 7), {21, 14, 0}), many(clusterOf(2, 8, 8), {24, 16, 1});
  EXPECT_FALSE(few.leavesOut());
  EXPECT_TRUE(few.mayShare(gpu, cpu));
  EXPECT_TRUE(many.leavesOut());
  EXPECT_TRUE(many.areLinked(gpu, cpu)) << "as devices lie, it is priced so";
  EXPECT_FALSE(many.mayShare(gpu, cpu));
  EXPECT_TRUE(many.mayShare(gpu, gpu));
  EXPECT_EQ(many.familyOf(gpu).size(), 1u);
}
