// Layers in stages, stages on devices.
#include "Fixture.h"

#include "cost/Simulator.h"

using namespace heterplan;

namespace {
using CheckerStructureTest = CheckerFixture;

TEST_F(CheckerStructureTest, AMissingLayer) {
  plan.stages[1].layers.pop_back();
  Finding layers = finding("layers-once");
  EXPECT_FALSE(layers.check.holds);
  EXPECT_EQ(layers.check.slack, -1);
  EXPECT_EQ(layers.because, "layer 'd' is placed 0 times");
}

TEST_F(CheckerStructureTest, ALayerTwice) {
  plan.stages[1].layers = {"b", "c", "d"};
  EXPECT_EQ(finding("layers-once").because, "layer 'b' is placed 2 times");
  EXPECT_FALSE(finding("stage-order").check.holds);
}

TEST_F(CheckerStructureTest, AnUnknownLayer) {
  plan.stages[1].layers.push_back("e");
  EXPECT_EQ(finding("layers-once").because, "stage 1 has layer 'e', which the model does not have");
  EXPECT_EQ(finding("timing").because, "stage 1: the model has no layer 'e'");
  EXPECT_FALSE(finding("memory").check.holds);
}

TEST_F(CheckerStructureTest, StagesInTheWrongOrder) {
  std::swap(plan.stages[0].layers, plan.stages[1].layers);
  Finding order = finding("stage-order");
  EXPECT_FALSE(order.check.holds);
  EXPECT_EQ(order.check.slack, -3); // a tensor that flows back, two stages that do not follow
  EXPECT_TRUE(finding("layers-once").check.holds);
}

TEST_F(CheckerStructureTest, LayersOfAStageInTheWrongOrder) {
  plan.stages[0].layers = {"b", "a"};
  EXPECT_EQ(finding("stage-order").because,
            "stage 0 does not continue the layers where the stage before it ends");
}

TEST_F(CheckerStructureTest, StagesNumberedWrongly) {
  plan.stages[1].id = 7;
  EXPECT_EQ(finding("stage-order").because, "stage 1 is numbered 7");
  EXPECT_EQ(failing(), (Names{"stage-order"}));
}

TEST_F(CheckerStructureTest, ATiedTableOnBothSidesOfACut) {
  graph.layers[2].parameters = {"a.weight"};
  graph.layers[0].tables = {{"a.weight", 1, 1, DataType::Float32, 1}};
  EXPECT_FALSE(finding("tied-parameters").check.holds);
  EXPECT_EQ(finding("tied-parameters").because,
            "tied table 'a.weight' is split over stage 0 and stage 1");
}

TEST_F(CheckerStructureTest, ACopyOfATiedParameterThatThePlanDoesNotCount) {
  graph.layers[2].parameters = {"a.weight"};
  EXPECT_TRUE(finding("tied-parameters").check.holds);
  EXPECT_FALSE(finding("memory").check.holds);
  EXPECT_FALSE(finding("timing").check.holds);
}

TEST_F(CheckerStructureTest, ATiedParameterWithinAStage) {
  graph.layers[1].parameters = {"a.weight"};
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerStructureTest, DataParallelWithTwoStages) {
  plan.schedule = Schedule::DataParallel;
  EXPECT_EQ(failing(), (Names{"schedule"}));
  EXPECT_EQ(finding("schedule").because, "schedule data-parallel has 2 stages");
}

TEST_F(CheckerStructureTest, NoStages) {
  plan.stages.clear();
  EXPECT_FALSE(finding("schedule").check.holds);
  EXPECT_EQ(finding("timing").because, "the plan has no stages");
  EXPECT_EQ(finding("layers-once").check.slack, -4);
}

TEST_F(CheckerStructureTest, AStageWithoutReplicas) {
  plan.stages[1].replicas.clear();
  EXPECT_EQ(finding("device-groups").because, "stage 1 has no replicas");
  EXPECT_EQ(finding("shares-sum").check.slack, -8);
}

TEST_F(CheckerStructureTest, AReplicaWithoutDevices) {
  plan.stages[1].replicas[0].devices.clear();
  EXPECT_EQ(finding("device-groups").because, "a replica of stage 1 has no devices");
}

TEST_F(CheckerStructureTest, AReplicaOfTwoTypes) {
  plan.stages[1].replicas[0].devices.push_back({"fast", "gpu-1", 0});
  EXPECT_EQ(finding("device-groups").because, "a replica of stage 1 mixes device types");
  EXPECT_EQ(finding("timing").because, "stage 1: a replica of 2 devices has no price yet");
}

TEST_F(CheckerStructureTest, DevicesThatDoNotExist) {
  for (DeviceRef wrong :
       {DeviceRef{"slow", "cpu", 3}, DeviceRef{"slow", "cpu", -1}, DeviceRef{"slow", "cpu-0", 0},
        DeviceRef{"slow", "gpu-0", 0}, DeviceRef{"tpu", "cpu", 0}, DeviceRef{"fast", "gpu", 0},
        DeviceRef{"fast", "gpu-2", 0}, DeviceRef{"fast", "gpu-01", 0},
        DeviceRef{"fast", "gpu--1", 0}, DeviceRef{"fast", "", 0}}) {
    plan.stages[1].replicas[1].devices = {wrong};
    Finding devices = finding("devices-exist");
    EXPECT_FALSE(devices.check.holds) << devices.because;
    EXPECT_EQ(devices.check.slack, -1);
    EXPECT_FALSE(finding("timing").check.holds);
  }
}

TEST_F(CheckerStructureTest, ADeviceUsedTwice) {
  plan.stages[1].replicas[1].devices = {{"slow", "cpu", 0}};
  plan.costPerHour = DollarsPerHour(7);
  Finding devices = finding("devices-used-once");
  EXPECT_EQ(devices.because, "slow 0 of node 'cpu' is used 2 times");
  EXPECT_EQ(devices.check.slack, -1);
}

TEST_F(CheckerStructureTest, ADeviceOfTwoStagesWhereTheScheduleAllowsIt) {
  plan.stages[1].replicas[1].devices = {{"slow", "cpu", 2}};
  plan.stages[0].replicas[1].devices = {{"slow", "cpu", 2}};
  EXPECT_FALSE(finding("devices-used-once").check.holds);
  plan.schedule = Schedule::Burst;
  EXPECT_TRUE(finding("devices-used-once").check.holds);
  plan.stages[1].replicas[0].devices = {{"slow", "cpu", 2}};
  EXPECT_EQ(finding("devices-used-once").because,
            "slow 2 of node 'cpu' is used 2 times in stage 1");
}

TEST_F(CheckerStructureTest, ADeviceHoldsAllOfItsStages) {
  plan.schedule = Schedule::Burst;
  plan.stages[0].replicas.resize(1);
  plan.stages[0].replicas[0] = replica(8, 8e-3, 16e-3, {"slow", "cpu", 0});
  plan.stages[0].memory = Bytes(2 * 2000 + 1000 + 4 * 120 + 4 * 100 + 4 * 4);
  cluster.types[1].memory = Bytes(13000);
  EXPECT_TRUE(finding("memory").check.holds) << finding("memory").because;
  EXPECT_EQ(finding("memory").check.slack, 13000 - 5896 - 5672);
  cluster.types[1].memory = Bytes(11000); // more than each of them, less than both
  EXPECT_EQ(finding("memory").because,
            "slow 0 of node 'cpu' has no room for all of its 2 stages at once");
}

TEST_F(CheckerStructureTest, TheTimeOfASharedScheduleIsThatOfTheSimulator) {
  // Both stages on the two slow devices, with the same shares: nothing is received. The sum of the
  // second stage's gradients runs beside the backward pass of the first.
  plan.schedule = Schedule::Burst;
  Stage &first = plan.stages[0], &second = plan.stages[1];
  first.replicas = second.replicas;
  first.update = second.update;
  first.sync = second.sync;
  second.receive = first.receiveGradient = Seconds();
  first.forward = Seconds(6e-3);
  first.backward = Seconds(12e-3);
  second.forward = Seconds(6e-3);
  second.backward = Seconds(12e-3);
  Program program = llvm::cantFail(lower(plan, graph, cluster));
  plan.iteration = llvm::cantFail(simulate(program)).timeline.iteration;
  plan.expected.reset();
  Seconds sum = second.sync - second.update;
  Seconds open = std::max(Seconds(), sum - first.backward) + sum;
  EXPECT_NEAR(plan.iteration.value(), 2 * (4 * 9e-3) + (open + second.update * 2).value(), 1e-9);
  plan.throughput = plan.globalBatch / plan.iteration;
  plan.costPerHour = DollarsPerHour(2);
  plan.costPerMillionSamples = plan.costPerHour * plan.iteration * (1e6 / 8);
  EXPECT_TRUE(finding("timing").check.holds) << finding("timing").because;
  plan.iteration = plan.iteration * 1.01;
  EXPECT_FALSE(finding("timing").check.holds);
}

TEST_F(CheckerStructureTest, ASharedScheduleThatCannotBeSimulatedIsNotChecked) {
  plan.schedule = Schedule::Burst;
  plan.stages[0].replicas = {replica(6, 6e-3, 12e-3, {"slow", "cpu", 0}),
                             replica(2, 2e-3, 4e-3, {"slow", "cpu", 1})};
  plan.globalBatch = Samples(10); // cannot be lowered, hence not simulated
  EXPECT_NE(finding("timing").because.find("its time is not checked"), std::string::npos);
}

} // namespace
