#include "search/verify/ShardRules.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

/// Two nodes of four GPUs each.
Cluster twoNodes() {
  Cluster cluster;
  NodeGroup group;
  group.name = "box";
  group.count = 2;
  group.devices = {{"gpu", 4}, {"other", 2}};
  cluster.nodes = {group};
  return cluster;
}

/// Two stages of one replica of two GPUs each.
Plan sharedPlan() {
  Plan plan;
  for (int stage : {0, 1}) {
    Replica replica;
    for (int i : {0, 1})
      replica.devices.push_back({"gpu", stage ? "box-1" : "box-0", i});
    plan.stages.emplace_back();
    plan.stages.back().id = stage;
    plan.stages.back().sharding.degree = 2;
    plan.stages.back().replicas = {replica};
  }
  return plan;
}

TEST(ShardGroupRule, AcceptsDisjointGroupsOfANode) {
  Finding found = checkShardGroups(sharedPlan(), twoNodes());
  EXPECT_TRUE(found.check.holds) << found.because;
  EXPECT_EQ(found.check.slack, 0);
}

struct Fault {
  const char *name, *message;
  void (*plant)(Plan &);
};

class PlantedGroupFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedGroupFault, IsFound) {
  Plan plan = sharedPlan();
  GetParam().plant(plan);
  Finding found = checkShardGroups(plan, twoNodes());
  EXPECT_FALSE(found.check.holds);
  EXPECT_LT(found.check.slack, 0);
  EXPECT_NE(found.because.find(GetParam().message), std::string::npos) << found.because;
}

std::vector<DeviceRef> &devicesOf(Plan &plan, int stage) {
  return plan.stages[stage].replicas[0].devices;
}

INSTANTIATE_TEST_SUITE_P(
    Shards, PlantedGroupFault,
    testing::Values(Fault{"OtherNode", "does not lie with",
                          [](Plan &plan) { devicesOf(plan, 0)[1].node = "box-1"; }},
                    Fault{"OtherType", "does not lie with",
                          [](Plan &plan) { devicesOf(plan, 0)[1].type = "other"; }},
                    Fault{"DeviceTwice", "gpu 0 of 'box-0' is named twice",
                          [](Plan &plan) { devicesOf(plan, 0)[1].index = 0; }},
                    Fault{"DeviceOfTwoGroups", "is named twice",
                          [](Plan &plan) { devicesOf(plan, 1) = devicesOf(plan, 0); }},
                    Fault{"NoSuchDevice", "is not in the cluster",
                          [](Plan &plan) { devicesOf(plan, 1)[1].index = 4; }},
                    Fault{"NoSuchNode", "is not in the cluster",
                          [](Plan &plan) {
                            for (DeviceRef &device : devicesOf(plan, 1))
                              device.node = "box-7";
                          }},
                    Fault{"DeviceMissing", "it has 1 devices, not 2",
                          [](Plan &plan) { devicesOf(plan, 1).pop_back(); }},
                    Fault{"OtherDegree", "it has 2 devices, not 4",
                          [](Plan &plan) { plan.stages[1].sharding.degree = 4; }}),
    [](const auto &info) { return std::string(info.param.name); });

/// A weight of 8 × 6 that two shards divide along axis 1, and a bias that both have.
struct Slices {
  Graph whole;
  LocalGraph local;
  LayerGraph layers;

  Slices() {
    auto tensor = [](const char *name, Shape shape) {
      GraphTensor result;
      result.name = name;
      result.role = TensorRole::Parameter;
      result.type = DataType::Float32;
      result.shape = std::move(shape);
      return result;
    };
    whole.tensors = {tensor("weight", {Dim{0, 8}, Dim{0, 6}}), tensor("bias", {Dim{0, 6}})};
    local.degree = 2;
    local.graph = whole;
    local.graph.tensors[0].shape[1].fixed = 3;
    local.states = {ShardState::along(1, {6}), ShardState::replicated()};
    Layer layer;
    layer.parameters = {"weight", "bias"};
    layer.parameterBytes = Bytes(4 * (24 + 6));
    layers.layers = {layer};
  }
  Finding check() const { return checkShardSlices(whole, local, layers); }
};

TEST(ShardSliceRule, AcceptsSlicesAndWholeTensors) {
  Finding found = Slices().check();
  EXPECT_TRUE(found.check.holds) << found.because;
}

TEST(ShardSliceRule, RefusesATensorThatIsNoSlice) {
  for (int spoiled : {0, 1, 2}) {
    Slices slices;
    if (spoiled == 0)
      slices.local.graph.tensors[0].shape[1].fixed = 4;
    else if (spoiled == 1)
      slices.local.graph.tensors[1].shape[0].fixed = 3; // its state says that it is whole
    else
      slices.local.states[0] = ShardState::along(0, {8});
    EXPECT_NE(slices.check().because.find("neither the tensor nor a slice"), std::string::npos);
  }
}

TEST(ShardSliceRule, RefusesLayersThatCountOtherBytes) {
  Slices slices;
  slices.layers.layers[0].parameterBytes = Bytes(4 * (48 + 6));
  Finding found = slices.check();
  EXPECT_FALSE(found.check.holds);
  EXPECT_EQ(found.check.slack, -4 * 24);
}

} // namespace
