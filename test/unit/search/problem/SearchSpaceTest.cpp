#include "search/problem/SearchSpace.h"
#include "search/placement/DeviceAssignment.h"
#include "search/problem/MicroBatchCounts.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

using namespace heterplan;

namespace {
/// A chain of `layers` layers; tensor i flows from layer i to i+1 with `bytes[i]`.
LayerGraph chain(const std::vector<double> &bytes) {
  LayerGraph graph;
  for (size_t i = 0; i <= bytes.size(); ++i) {
    Layer layer;
    layer.name = layer.signature = "l" + std::to_string(i);
    graph.layers.push_back(layer);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    LayerTensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.producer = static_cast<int>(i);
    tensor.consumers = {static_cast<int>(i) + 1};
    tensor.bytesPerSample = Bytes(bytes[i]);
    graph.tensors.push_back(tensor);
  }
  return graph;
}

Problem problemOf(LayerGraph graph) {
  Problem problem;
  problem.graph = std::move(graph);
  return problem;
}

Cluster nodesOf(int count, int perNode) {
  Cluster cluster;
  DeviceType type;
  type.name = "gpu";
  cluster.types.push_back(type);
  NodeGroup group;
  group.name = "node";
  group.count = count;
  group.devices["gpu"] = perNode;
  cluster.nodes.push_back(group);
  return cluster;
}
} // namespace

TEST(SearchSpace, slotsAreWholeNodesAndDivisors) {
  EXPECT_EQ(slotsFor(3, 1), 3);
  EXPECT_EQ(slotsFor(3, 8), 4);
  EXPECT_EQ(slotsFor(5, 8), 8);
  EXPECT_EQ(slotsFor(8, 8), 8);
  EXPECT_EQ(slotsFor(12, 8), 12);
  EXPECT_EQ(slotsFor(13, 8), 16);
  EXPECT_EQ(slotsFor(2, 6), 3); // 6, 3, 1
  EXPECT_EQ(slotsFor(4, 5), 5);
}

TEST(SearchSpace, layersTogetherHaveNoCutBetweenThem) {
  Problem problem = problemOf(chain({1, 1, 1, 1, 1}));
  problem.request.colocations = {{"l3", "l1"}};
  EXPECT_EQ(cutPositions(problem, 40), (std::vector<int>{0, 1, 4, 5, 6}));
}

TEST(SearchSpace, layersApartHaveACutBetweenThemBeyondTheLimit) {
  std::vector<double> bytes(99, 1);
  bytes[71] = 0.5; // the narrowest cut between 70 and 75: behind layer 71
  Problem problem = problemOf(chain(bytes));
  problem.request.separations = {{"l75", "l70"}};
  std::vector<int> few = cutPositions(problem, 3);
  EXPECT_EQ(few.size(), 6u);
  EXPECT_TRUE(std::count(few.begin(), few.end(), 72));
  problem.request.separations.clear();
  problem.request.pins = {{"l70", "a"}, {"l75", "b"}};
  EXPECT_EQ(cutPositions(problem, 3), few);
  problem.request.pins = {{"l70", "a"}, {"l75", "a"}};
  EXPECT_EQ(cutPositions(problem, 3).size(), 5u);
}

TEST(SearchSpace, theFewestMicroBatchesOfEachSizeAreUseful) {
  EXPECT_EQ(usefulMicroBatches(Samples(1)), (std::vector<int>{1}));
  EXPECT_EQ(usefulMicroBatches(Samples(7)), (std::vector<int>{1, 2, 3, 4, 7}));
  EXPECT_EQ(usefulMicroBatches(Samples(12)), (std::vector<int>{1, 2, 3, 4, 6, 12}));
  for (int batch : {97, 100, 1201}) {
    std::set<int> fewest; // of each size
    for (int size = 1; size <= batch; ++size)
      fewest.insert((batch + size - 1) / size);
    EXPECT_EQ(usefulMicroBatches(Samples(batch)), std::vector<int>(fewest.begin(), fewest.end()));
  }
}

TEST(SearchSpace, microBatchesAreThinnedGeometrically) {
  EXPECT_EQ(microBatchChoices(Samples(256), 16),
            (std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 256}));
  EXPECT_EQ(microBatchChoices(Samples(12), 16), usefulMicroBatches(Samples(12)));
  for (int batch : {1201, 100'000, 1 << 28}) {
    std::vector<int> few = microBatchChoices(Samples(batch), 16);
    EXPECT_LE(few.size(), std::log2(batch) + 2);
    EXPECT_GE(few.size(), std::log2(batch) / 2);
    EXPECT_EQ(few.front(), 1);
    EXPECT_EQ(few.back(), batch);
    std::vector<int> all = usefulMicroBatches(Samples(batch));
    EXPECT_TRUE(std::includes(all.begin(), all.end(), few.begin(), few.end()));
    for (size_t i = 1; i < few.size(); ++i)
      EXPECT_LT(few[i], 4 * few[i - 1]) << batch;
  }
}

TEST(SearchSpace, steadyMicroBatchesLeaveASampleForEachDevice) {
  auto steady = [](int devices, int batch) {
    Problem problem = problemOf(chain({1}));
    problem.cluster = nodesOf(1, devices);
    problem.request.globalBatch = Samples(batch);
    return steadyMicroBatches(problem);
  };
  EXPECT_EQ(steady(12, 256), 16);
  EXPECT_EQ(steady(12, 8), 1);
  EXPECT_EQ(steady(8, 1201), 86);     // of 14 samples: 1204
  EXPECT_EQ(steady(1, 100'000), 250); // of 400: no more than 256
}

TEST(SearchSpace, narrowSeriesCutsComeFirst) {
  LayerGraph graph = chain({10, 1, 5, 2});
  EXPECT_EQ(cutPositions(problemOf(graph), 40), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  LayerTensor skip;
  skip.name = "skip";
  skip.producer = 0;
  skip.consumers = {2};
  graph.tensors.push_back(skip);
  EXPECT_EQ(cutPositions(problemOf(graph), 3), (std::vector<int>{0, 2, 3, 4, 5}));
}

TEST(SearchSpace, longChainsAreSpreadEvenly) {
  std::vector<int> positions = cutPositions(problemOf(chain(std::vector<double>(999, 1))), 40);
  EXPECT_EQ(positions.size(), 42u);
  for (size_t i = 1; i < positions.size(); ++i)
    EXPECT_LE(positions[i] - positions[i - 1], 26);
}

/// Whatever their width in other parts, of four.
TEST(SearchSpace, theNarrowestCutOfEachPartComesFirst) {
  std::vector<double> bytes(19, 5);
  for (int layer : {0, 1, 2, 3}) // narrow, all in the first part
    bytes[layer] = 1;
  bytes[2] = 0.5;
  bytes[12] = 4;
  LayerGraph graph = chain(bytes);
  LayerTensor around;
  around.name = "around";
  around.producer = 0;
  around.consumers = {19};
  graph.tensors.push_back(around);
  Problem problem = problemOf(graph);
  EXPECT_EQ(cutPositions(problem, 8), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 13, 15, 20}));
  problem.request.colocations = {{"l4", "l10"}};
  EXPECT_EQ(cutPositions(problem, 8), (std::vector<int>{0, 1, 2, 3, 4, 11, 12, 13, 15, 20}));
  problem.request.separations = {{"l15", "l16"}};
  EXPECT_EQ(cutPositions(problem, 8), (std::vector<int>{0, 1, 2, 3, 4, 11, 12, 13, 15, 16, 20}));
}

TEST(SearchSpace, TiedParametersMayBePartedAndTablesMayNot) {
  LayerGraph graph = chain({1, 1, 1});
  graph.layers[1].parameters = graph.layers[3].parameters = {"shared"};
  EXPECT_EQ(cutPositions(problemOf(graph), 40), (std::vector<int>{0, 1, 2, 3, 4}));
  graph.layers[1].parameterBytes = Bytes(80);
  graph.layers[1].tables = {{"shared", 10, 2, DataType::Float32, 1}};
  EXPECT_EQ(cutPositions(problemOf(graph), 40), (std::vector<int>{0, 1, 4}));
}

TEST(Assignment, groupsNoLargerThanANodeDoNotStraddle) {
  Cluster cluster = nodesOf(2, 8);
  Placement placement;
  for (int count : {3, 4, 8})
    placement.stages.push_back({0, 1, DeviceGroup{{{0, count}}}});
  auto devices = assignDevices(cluster, placement, {roomOf(cluster, 0, 16, false)});
  std::set<std::pair<std::string, int>> seen;
  for (const auto &stage : devices) {
    std::set<std::string> nodes;
    for (const DeviceRef &device : stage) {
      EXPECT_TRUE(seen.insert({device.node, device.index}).second);
      nodes.insert(device.node);
    }
    EXPECT_EQ(nodes.size(), 1u);
  }
}

TEST(Assignment, stagesOfOneNodeLieThere) {
  for (int perNode : {4, 8}) // in any nodes, and so that they fill them
    for (bool areBeside : {false, true}) {
      Cluster cluster = nodesOf(2, perNode);
      Placement placement;
      for (int count : {2, 1, 1, 2})
        placement.stages.push_back({0, 1, DeviceGroup{{{0, count}}}});
      setBeside(placement, 0, areBeside); // 3 devices and 3: each chain in a node of its own
      setBeside(placement, 2, areBeside);
      TypeRoom room = roomOf(cluster, 0, 2 * perNode, false);
      EXPECT_EQ(room.isFree(), perNode == 4);
      auto devices = assignDevices(cluster, placement, {room});
      std::set<DeviceRef> seen;
      for (const auto &stage : devices)
        seen.insert(stage.begin(), stage.end());
      EXPECT_EQ(seen.size(), 6u);
      for (size_t stage : {0, 2})
        if (areBeside) {
          EXPECT_EQ(devices[stage].front().node, devices[stage + 1].front().node);
        }
      Placement stated = placement;
      stateNodeSharing(cluster, devices, stated);
      for (size_t stage = 0; stage < 3; ++stage)
        EXPECT_EQ(stated.stages[stage].group.besideNext,
                  devices[stage].front().node == devices[stage + 1].front().node);
    }
}

TEST(SearchSpace, saysWhatItLeavesOut) {
  Problem problem = problemOf(chain({1, 2, 3}));
  problem.cluster = nodesOf(1, 4);
  problem.request.globalBatch = Samples(16);
  EXPECT_EQ(SearchSpace(problem).searched().name, "pipelines");
  EXPECT_TRUE(SearchSpace(problem).searched().leftOut.empty());

  problem.graph = chain(std::vector<double>(50, 1));
  EXPECT_EQ(SearchSpace(problem).searched().name, "pipelines-reduced");
  EXPECT_EQ(SearchSpace(problem).searched().leftOut, std::vector<std::string>{"10 of 50 cuts"});
  problem.request.iterationModel = IterationModel::SteadyState;
  EXPECT_EQ(SearchSpace(problem).searched().name, "steady-state");
}

TEST(SearchSpace, saysThatMicroBatchesAndMixesAreLeftOut) {
  Problem problem = problemOf(chain({1}));
  problem.cluster = nodesOf(1, 30);
  problem.request.globalBatch = Samples(5040);
  EXPECT_EQ(SearchSpace(problem).searched().leftOut.back(), "most numbers of devices above 16");
  problem.request.shardState = StateSharding::None;
  size_t all = usefulMicroBatches(Samples(5040)).size();
  std::string leftOut = std::to_string(all - SearchSpace(problem).microBatches.size()) + " of " +
                        std::to_string(all) + " numbers of micro-batches";
  EXPECT_GT(all, 100u);
  EXPECT_EQ(SearchSpace(problem).searched().leftOut, std::vector<std::string>{leftOut});
  problem.request.microBatches = 10;
  EXPECT_TRUE(SearchSpace(problem).searched().leftOut.empty());
  DeviceType other;
  other.name = "other";
  problem.cluster.types.push_back(other);
  problem.cluster.nodes[0].devices["other"] = 200;
  EXPECT_EQ(SearchSpace(problem).searched().leftOut,
            std::vector<std::string>{"most mixes of device types in a stage"});
  problem = problemOf(chain({1}));
  problem.cluster = nodesOf(2, 8);
  problem.request.globalBatch = Samples(16);
  EXPECT_EQ(SearchSpace(problem).searched().leftOut,
            (std::vector<std::string>{"sharing of a node that a stage uses in part",
                                      "stages in more nodes than they fill"}));
  problem.cluster = nodesOf(2, 4); // few enough to look at all
  EXPECT_TRUE(SearchSpace(problem).searched().leftOut.empty());
}

TEST(SearchSpace, listsMoreMixesOfFewerLayers) {
  auto leavesMixesOut = [](size_t layers, int cuts) {
    Problem problem = problemOf(chain(std::vector<double>(layers - 1, 1)));
    problem.cluster = nodesOf(1, 14);
    DeviceType other;
    other.name = "other";
    problem.cluster.types.push_back(other);
    problem.cluster.nodes[0].devices["other"] = 14; // 225 combinations of numbers
    problem.request.globalBatch = Samples(8);
    LayerSet together;
    for (size_t layer = 0; layer + cuts < layers; ++layer)
      together.push_back("l" + std::to_string(layer));
    problem.request.colocations = {together};
    const SearchSpace space(problem);
    const bool areListed = llvm::any_of(space.options, [](const GroupOption &option) {
      return option.group.counts == decltype(option.group.counts){{0, 3}, {1, 4}};
    });
    EXPECT_NE(llvm::is_contained(space.searched().leftOut, "most mixes of device types in a stage"),
              areListed);
    return !areListed;
  };
  EXPECT_FALSE(leavesMixesOut(11, 10)); // 66 ranges
  EXPECT_TRUE(leavesMixesOut(12, 11));  // 78
  EXPECT_TRUE(leavesMixesOut(12, 2)) << "with a constraint, so that one less leaves no more out";
}

TEST(SearchSpace, listsNoMixesOfMoreDevicesThanSamples) {
  Problem problem = problemOf(chain({1}));
  problem.cluster = nodesOf(1, 3);
  DeviceType other;
  other.name = "other";
  problem.cluster.types.push_back(other);
  problem.cluster.nodes[0].devices["other"] = 3;
  problem.request.globalBatch = Samples(4);
  int mixed = 0;
  for (const GroupOption &option : SearchSpace(problem).options) {
    EXPECT_LE(option.group.deviceCount(), 4);
    mixed += option.group.counts.size() > 1 && !option.group.sharesNode();
  }
  EXPECT_EQ(mixed, 6); // 1+1, 1+2, 1+3, 2+1, 2+2, 3+1
}

TEST(SearchSpace, stagesLieInAnyNodes) {
  Problem problem = problemOf(chain({1}));
  problem.cluster = nodesOf(2, 2);
  problem.request.globalBatch = Samples(4);
  std::vector<std::tuple<int, int, int>> found; // devices, nodes, most in one
  for (const GroupOption &option : SearchSpace(problem).options) {
    if (option.group.sharesNode())
      continue;
    Spread spread = spreadOf(problem.cluster, option.group, 0);
    found.push_back({option.group.deviceCount(), spread.nodes, spread.inNode});
    EXPECT_EQ(option.slots, std::vector<int>{option.group.deviceCount()});
  }
  EXPECT_EQ(found, (std::vector<std::tuple<int, int, int>>{
                       {1, 1, 1}, {2, 1, 2}, {2, 2, 1}, {3, 2, 2}, {4, 2, 2}}));
}

TEST(SearchSpace, neighboursShareANodeBothOrNeither) {
  Problem problem = problemOf(chain({1, 1, 1}));
  problem.cluster = nodesOf(3, 4);
  problem.request.globalBatch = Samples(12);
  const SearchSpace space(problem);
  auto optionOf = [&](int devices, bool before, bool next) {
    return int(llvm::find_if(space.options,
                             [&](const GroupOption &option) {
                               const DeviceGroup &group = option.group;
                               return group.deviceCount() == devices &&
                                      group.besideBefore == before && group.besideNext == next &&
                                      spreadOf(problem.cluster, group, 0).nodes == 1;
                             }) -
               space.options.begin());
  };
  const int none = int(space.options.size());
  EXPECT_EQ(optionOf(4, true, false), none) << "a whole node";
  EXPECT_EQ(optionOf(3, true, true), none) << "no room for two neighbours";
  const int first = optionOf(2, false, true), last = optionOf(2, true, false);
  const int middle = optionOf(1, true, true), largest = optionOf(3, true, false);
  ASSERT_LT(std::max({first, last, middle, largest}), none);
  EXPECT_TRUE(space.mayFollow(first, last));
  EXPECT_TRUE(space.mayFollow(first, middle));
  EXPECT_FALSE(space.mayFollow(first, largest)) << "five devices";
  EXPECT_FALSE(space.mayFollow(first, optionOf(2, false, false))) << "it lies apart";
  EXPECT_FALSE(space.mayFollow(first, -1)) << "it has no neighbour";
  EXPECT_FALSE(space.mayFollow(-1, last));
  EXPECT_EQ(space.options[middle].fromBefore, optionOf(1, true, false));
  EXPECT_EQ(space.options[middle].fromBehind, optionOf(1, false, true));
  EXPECT_EQ(space.chainsOf(middle), (llvm::ArrayRef<int>{2, 3})); // one before, one behind
  auto meets = [&](int chain, int behind, int chainBehind) {
    return space.mayMeet(space.faceBehind(first, chain), space.faceBefore(behind, chainBehind));
  };
  EXPECT_TRUE(meets(4, last, 2));
  EXPECT_TRUE(meets(4, middle, 2));
  EXPECT_FALSE(meets(3, last, 2));
}

TEST(SearchSpace, aLimitHoldsForAllNodeClassesTogether) {
  Problem problem = problemOf(chain({1}));
  problem.cluster = nodesOf(1, 3);
  problem.cluster.types.push_back(problem.cluster.types[0]);
  problem.cluster.types[0].statedName = problem.cluster.types[1].statedName = "gpu";
  problem.cluster.types[1].name = "other";
  problem.cluster.nodes.push_back(problem.cluster.nodes[0]);
  problem.cluster.nodes[1].name = "more";
  problem.cluster.nodes[1].devices = {{"other", 2}};
  problem.request.globalBatch = Samples(8);
  problem.request.deviceLimits = {{"gpu", 2}};
  SearchSpace space(problem);
  EXPECT_EQ(space.available, (std::vector<int>{2, 2}));
  EXPECT_TRUE(space.keepsSharedLimits({1, 1}));
  EXPECT_FALSE(space.keepsSharedLimits({1, 2}));
  EXPECT_TRUE(space.searched().leftOut.empty());
  for (const GroupOption &option : space.options)
    EXPECT_LE(option.group.deviceCount(), 2);
}

TEST(SearchSpace, noGroupCostsMoreThanTheBudget) {
  Problem problem = problemOf(chain({1}));
  problem.cluster = nodesOf(1, 4);
  problem.cluster.types[0].price = DollarsPerHour(0.1);
  problem.request.globalBatch = Samples(8);
  auto most = [&](double budget) {
    problem.request.maxCostPerHour = DollarsPerHour(budget);
    int devices = 0;
    for (const GroupOption &option : SearchSpace(problem).options)
      devices = std::max(devices, option.group.deviceCount());
    return devices;
  };
  EXPECT_EQ(most(0), 4); // no budget
  EXPECT_EQ(most(3 * 0.1), 3);
  EXPECT_EQ(most(0.29), 2);
  EXPECT_EQ(most(0.09), 0);
}
