#include "search/placement/NodePacking.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace heterplan;

namespace {
NodePiece piece(int count, int nodes, int inNode) { return {0, count, {nodes, inNode}}; }

/// Two nodes of three devices, of which stages may have any.
Problem problemOf() {
  Problem problem;
  Layer layer;
  layer.name = layer.signature = "l";
  problem.graph.layers.push_back(layer);
  DeviceType type;
  type.name = "gpu";
  problem.cluster.types.push_back(type);
  NodeGroup group;
  group.name = "node";
  group.count = 2;
  group.devices["gpu"] = 3;
  problem.cluster.nodes.push_back(group);
  problem.request.globalBatch = Samples(6);
  return problem;
}

/// The option of so many devices in so many nodes, so many at most in one.
int optionOf(const Problem &problem, const SearchSpace &space, int count, int nodes, int inNode) {
  for (size_t i = 0; i < space.options.size(); ++i)
    if (space.options[i].group.deviceCount() == count &&
        spreadOf(problem.cluster, space.options[i].group, 0) == Spread{nodes, inNode})
      return int(i);
  ADD_FAILURE() << "no such option";
  return 0;
}
} // namespace

TEST(NodePacking, eachPieceLiesAsItIsTold) {
  std::vector<NodePiece> pieces{piece(3, 2, 2), piece(2, 2, 1), piece(1, 1, 1)};
  auto packed = packNodes(pieces, 2, 3);
  ASSERT_TRUE(packed);
  std::vector<int> used(2, 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    int count = 0, nodes = 0, most = 0;
    for (int node = 0; node < 2; ++node) {
      int here = (*packed)[i][node];
      used[node] += here;
      count += here;
      nodes += here > 0;
      most = std::max(most, here);
    }
    EXPECT_EQ(count, pieces[i].count);
    EXPECT_EQ((Spread{nodes, most}), pieces[i].spread);
  }
  EXPECT_EQ(used, (std::vector<int>{3, 3}));
}

TEST(NodePacking, thereMayBeNoRoomThoughThereAreDevices) {
  EXPECT_TRUE(packNodes({piece(2, 1, 2), piece(2, 1, 2)}, 2, 3));
  EXPECT_FALSE(packNodes({piece(2, 1, 2), piece(2, 1, 2), piece(2, 1, 2)}, 2, 3));
  EXPECT_TRUE(packNodes({piece(2, 1, 2), piece(2, 1, 2), piece(2, 2, 1)}, 2, 3));
  EXPECT_FALSE(packNodes({piece(4, 2, 3), piece(2, 1, 2), piece(1, 1, 1)}, 2, 3, 2)); // few steps
}

TEST(NodePacking, packingsAreWhatIsLeft) {
  Problem problem = problemOf();
  SearchSpace space(problem);
  Packings packings(problem.cluster, space);
  int two = optionOf(problem, space, 2, 1, 2), spread = optionOf(problem, space, 2, 2, 1);
  int one = optionOf(problem, space, 1, 1, 1), three = optionOf(problem, space, 3, 1, 3);
  int twice = packings.with(packings.with(0, two), two);
  EXPECT_GT(twice, 0);
  EXPECT_EQ(packings.with(twice, two), -1);
  EXPECT_GT(packings.with(twice, spread), 0);
  int ones = packings.with(packings.with(0, one), one);
  EXPECT_TRUE(packings.holds(ones, packings.with(0, two)));
  EXPECT_TRUE(packings.holds(ones, packings.with(0, spread)));
  EXPECT_FALSE(packings.holds(packings.with(0, two), packings.with(0, spread)));
  EXPECT_FALSE(packings.holds(packings.with(0, three), ones));
  EXPECT_TRUE(packings.holds(0, ones));
  EXPECT_EQ(packings.withChain(0, 0, 2), packings.with(0, two));
  EXPECT_EQ(packings.withChain(twice, 0, 2), -1) << "one device is left in each node";
}

TEST(NodePacking, itemsOfSeveralTypesLieInOneNodeOrMayNot) {
  const NodePiece gpu{0, 1, {1, 1}}, cpu{1, 1, {1, 1}};
  const NodeItem both{{gpu, cpu}, NodeItem::Kind::Together},
      apart{{gpu, cpu}, NodeItem::Kind::Apart};
  const std::vector<std::vector<int>> nodes{{1, 0}, {0, 1}, {1, 1}}; // one has both
  EXPECT_TRUE(packNodes({both, {{gpu}}, {{cpu}}}, {0, 1}, nodes));
  EXPECT_FALSE(packNodes({both, both}, {0, 1}, nodes)) << "each type has room";
  auto packed = packNodes({both, {{cpu}}}, {0, 1}, nodes);
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed)[0], (std::vector<std::vector<int>>{{0, 0, 1}, {0, 0, 1}}));
  EXPECT_EQ((*packed)[1], (std::vector<std::vector<int>>{{0, 1, 0}}));
  EXPECT_TRUE(packNodes({apart, apart}, {0, 1}, nodes));
  EXPECT_FALSE(packNodes({both, apart, {{cpu}}}, {0, 1}, nodes)) << "two are left of each";
  EXPECT_FALSE(packNodes({apart}, {0, 1}, {{1, 1}}));
}

TEST(NodePacking, packingsKnowWhatIsLeftOfSeveralTypesTogether) {
  Problem problem = problemOf();
  problem.cluster.types.emplace_back().name = "cpu";
  problem.cluster.nodes[0].devices = {{"gpu", 2}, {"cpu", 1}};
  problem.cluster.nodes[0].link = {"", BytesPerSecond(100), Seconds(0), ""};
  problem.cluster.network = {"", BytesPerSecond(10), Seconds(0), ""};
  SearchSpace space(problem);
  ASSERT_TRUE(space.chains.mayShare(0, 1));
  Packings packings(problem.cluster, space);
  const int pair = space.chains.chainOf(0, 1) + space.chains.chainOf(1, 1);
  const int whole = optionOf(problem, space, 2, 1, 2), spread = optionOf(problem, space, 2, 2, 1);
  const int left = packings.with(packings.withChain(0, 0, pair), whole);
  ASSERT_GT(left, 0);
  EXPECT_EQ(packings.withChain(left, 0, pair), -1) << "a cpu is left, but without a gpu beside it";
  const int other = packings.with(packings.withChain(0, 0, pair), spread);
  EXPECT_GT(packings.withChain(other, 0, pair), 0);
  EXPECT_FALSE(packings.holds(left, other));
}
