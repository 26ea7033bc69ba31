#include "Fixture.h"

#include <limits>

using namespace heterplan;

namespace {
using CheckerTest = CheckerFixture;

TEST_F(CheckerTest, APlanThatIsRightHolds) {
  std::vector<Finding> findings = examine();
  Names names;
  for (const Finding &finding : findings) {
    names.push_back(finding.check.name);
    EXPECT_TRUE(finding.check.holds) << finding.check.name << ": " << finding.because;
    EXPECT_EQ(finding.because, "");
    EXPECT_GE(finding.check.slack, 0);
  }
  EXPECT_EQ(names,
            (Names{"layers-once", "stage-order", "tied-parameters", "schedule", "device-groups",
                   "devices-exist", "devices-used-once", "memory", "shares-sum", "timing", "bound",
                   "fingerprints", "throughput-floor", "budget", "pins"}));
}

TEST_F(CheckerTest, TheIterationIsTheHandCalculation) {
  // Two micro-batches: each stage once, and the slower one (the second) once more.
  double receive = plan.stages[1].receive.value(),
         gradient = plan.stages[0].receiveGradient.value();
  double first = 6e-3 + gradient, second = 18e-3 + receive;
  double sync = std::max(plan.stages[0].sync.value(),
                         plan.stages[1].sync.value() - plan.stages[0].backward.value());
  EXPECT_NEAR(plan.iteration.value(), first + second + second + sync, 1e-12);
  EXPECT_TRUE(finding("timing").check.holds);
}

TEST_F(CheckerTest, ChecksAloneAreThoseOfTheFindings) {
  llvm::Expected<std::vector<Check>> checks = checkPlan(plan, graph, cluster, costs);
  ASSERT_TRUE(bool(checks));
  std::vector<Finding> findings = examine();
  ASSERT_EQ(checks->size(), findings.size());
  for (size_t i = 0; i < findings.size(); ++i)
    EXPECT_EQ((*checks)[i], findings[i].check);
}

TEST_F(CheckerTest, LimitsThatThePlanDoesNotHaveAreLeftOut) {
  plan.minThroughput = SamplesPerSecond(0);
  plan.maxCostPerHour = DollarsPerHour(0);
  plan.pins.clear();
  EXPECT_EQ(examine().back().check.name, "fingerprints");
}

TEST_F(CheckerTest, AMissingLayer) {
  plan.stages[1].layers.pop_back();
  Finding layers = finding("layers-once");
  EXPECT_FALSE(layers.check.holds);
  EXPECT_EQ(layers.check.slack, -1);
  EXPECT_EQ(layers.because, "layer 'd' is placed 0 times");
}

TEST_F(CheckerTest, ALayerTwice) {
  plan.stages[1].layers = {"b", "c", "d"};
  EXPECT_EQ(finding("layers-once").because, "layer 'b' is placed 2 times");
  EXPECT_FALSE(finding("stage-order").check.holds);
}

TEST_F(CheckerTest, AnUnknownLayer) {
  plan.stages[1].layers.push_back("e");
  EXPECT_EQ(finding("layers-once").because, "stage 1 has layer 'e', which the model does not have");
  EXPECT_EQ(finding("timing").because, "stage 1: the model has no layer 'e'");
  EXPECT_FALSE(finding("memory").check.holds);
}

TEST_F(CheckerTest, StagesInTheWrongOrder) {
  std::swap(plan.stages[0].layers, plan.stages[1].layers);
  Finding order = finding("stage-order");
  EXPECT_FALSE(order.check.holds);
  EXPECT_EQ(order.check.slack, -3); // a tensor that flows back, two stages that do not follow
  EXPECT_TRUE(finding("layers-once").check.holds);
}

TEST_F(CheckerTest, LayersOfAStageInTheWrongOrder) {
  plan.stages[0].layers = {"b", "a"};
  EXPECT_EQ(finding("stage-order").because,
            "stage 0 does not continue the layers where the stage before it ends");
}

TEST_F(CheckerTest, StagesNumberedWrongly) {
  plan.stages[1].id = 7;
  EXPECT_EQ(finding("stage-order").because, "stage 1 is numbered 7");
  EXPECT_EQ(failing(), (Names{"stage-order"}));
}

TEST_F(CheckerTest, ATiedParameterOnBothSidesOfACut) {
  graph.layers[2].parameters = {"a.weight"};
  EXPECT_EQ(failing(), (Names{"tied-parameters"}));
  EXPECT_EQ(finding("tied-parameters").because,
            "tied parameter 'a.weight' is split over stage 0 and stage 1");
}

TEST_F(CheckerTest, ATiedParameterWithinAStage) {
  graph.layers[1].parameters = {"a.weight"};
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTest, DataParallelWithTwoStages) {
  plan.schedule = Schedule::DataParallel;
  EXPECT_EQ(failing(), (Names{"schedule"}));
  EXPECT_EQ(finding("schedule").because, "schedule data-parallel has 2 stages");
}

TEST_F(CheckerTest, NoStages) {
  plan.stages.clear();
  EXPECT_FALSE(finding("schedule").check.holds);
  EXPECT_EQ(finding("timing").because, "the plan has no stages");
  EXPECT_EQ(finding("layers-once").check.slack, -4);
}

TEST_F(CheckerTest, AStageWithoutReplicas) {
  plan.stages[1].replicas.clear();
  EXPECT_EQ(finding("device-groups").because, "stage 1 has no replicas");
  EXPECT_EQ(finding("shares-sum").check.slack, -8);
}

TEST_F(CheckerTest, AReplicaWithoutDevices) {
  plan.stages[1].replicas[0].devices.clear();
  EXPECT_EQ(finding("device-groups").because, "a replica of stage 1 has no devices");
}

TEST_F(CheckerTest, AReplicaOfTwoTypes) {
  plan.stages[1].replicas[0].devices.push_back({"fast", "gpu-1", 0});
  EXPECT_EQ(finding("device-groups").because, "a replica of stage 1 mixes device types");
  EXPECT_EQ(finding("timing").because, "stage 1: a replica of 2 devices has no price yet");
}

TEST_F(CheckerTest, DevicesThatDoNotExist) {
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

TEST_F(CheckerTest, ADeviceUsedTwice) {
  plan.stages[1].replicas[1].devices = {{"slow", "cpu", 0}};
  plan.costPerHour = DollarsPerHour(7);
  Finding devices = finding("devices-used-once");
  EXPECT_EQ(devices.because, "slow 0 of node 'cpu' is used 2 times");
  EXPECT_EQ(devices.check.slack, -1);
}

TEST_F(CheckerTest, MemorySlackIsThatOfTheTightestDevice) {
  Finding memory = finding("memory");
  EXPECT_TRUE(memory.check.holds);
  EXPECT_EQ(memory.check.unit, "bytes");
  EXPECT_DOUBLE_EQ(memory.check.slack, 5000 - (4000 + 80 + 8));
  cluster.types[0].memory = Bytes(4000);
  memory = finding("memory");
  EXPECT_FALSE(memory.check.holds);
  EXPECT_DOUBLE_EQ(memory.check.slack, -88);
  EXPECT_EQ(memory.because, "stage 0 needs 4088 bytes on fast, which has 4000");
}

TEST_F(CheckerTest, MemoryThatIsExactlyEnough) {
  cluster.types[0].memory = Bytes(4088);
  EXPECT_EQ(failing(), (Names{}));
  EXPECT_EQ(finding("memory").check.slack, 0);
}

/// The right plan with a table of 20 rows of 8 bytes, two lookups a sample, in layer a.
struct TableCheckerTest : CheckerFixture {
  TableCheckerTest() {
    graph.layers[0].tables = {{"a.weight", 20, 2, DataType::Float32, 2}};
    Stage &first = plan.stages[0];
    first.tables = {{"a.weight", {12, 8}}};
    // the table's 160 bytes are dense no more; 12 rows, and gradients of as many
    first.memory += Bytes(-2 * 160 + 2 * 12 * 8);
    DeviceGroup fast{{{0, 2}}};
    first.lookup = lookupCost(cluster, fast).time(Bytes(2 * 2 * 8));
    first.lookupGradient = lookupGradientCost(cluster, fast).time(Bytes(2 * 2 * 8));
    first.forward += first.lookup;
    first.backward += first.lookupGradient;
    first.sync = first.update + allReduceTime(cluster, fast, Bytes(2000 - 160));
    fillTotals();
  }
};

TEST_F(TableCheckerTest, APlanThatShardsItsTableHolds) {
  EXPECT_EQ(failing(), (Names{}));
  EXPECT_TRUE(finding("table-shards").check.holds);
  EXPECT_EQ(finding("table-shards").check.unit, "tables");
}

TEST_F(TableCheckerTest, ShardsThatAreNotTheTable) {
  auto because = [&](std::vector<TableShards> tables) {
    plan.stages[0].tables = std::move(tables);
    EXPECT_FALSE(finding("table-shards").check.holds);
    return finding("table-shards").because;
  };
  EXPECT_NE(because({{"a.weight", {12, 9}}}).find("not its 20 rows"), std::string::npos);
  EXPECT_NE(because({{"a.weight", {20}}}).find("1 shards on the 2 devices"), std::string::npos);
  EXPECT_NE(because({{"a.weight", {21, -1}}}).find("fewer than no rows"), std::string::npos);
  EXPECT_NE(because({}).find("0"), std::string::npos);
  EXPECT_NE(because({{"a.weight", {12, 8}}, {"a.weight", {12, 8}}}).find("2"), std::string::npos);
  EXPECT_NE(because({{"a.weight", {12, 8}}, {"b", {1, 1}}}).find("b"), std::string::npos);
}

TEST_F(TableCheckerTest, MemoryCountsTheStatedRows) {
  plan.stages[0].tables = {{"a.weight", {14, 6}}};
  EXPECT_EQ(failing(), (Names{"memory"}));
  plan.stages[0].memory += Bytes(2 * 2 * 8);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(TableCheckerTest, LookupsAreTimed) {
  plan.stages[0].lookup = Seconds(0);
  EXPECT_EQ(failing(), (Names{"timing"}));
}

TEST_F(CheckerTest, GPipeHoldsAllMicroBatches) {
  plan.schedule = Schedule::GPipe;
  fillTotals();
  Finding memory = finding("memory"); // the last stage keeps two micro-batches now
  EXPECT_FALSE(memory.check.holds);
  plan.stages[1].memory += Bytes(3 * 120);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTest, AMemoryFigureThatIsMadeUp) {
  plan.stages[0].memory = Bytes(4000);
  EXPECT_EQ(failing(), (Names{"memory"}));
  EXPECT_EQ(finding("memory").because,
            "stage 0 is stated to need 4000 bytes, which is not what its layers give");
}

TEST_F(CheckerTest, SharesThatDoNotSum) {
  plan.stages[1].replicas[1].share = Samples(4);
  Finding shares = finding("shares-sum");
  EXPECT_EQ(shares.because, "the shares of stage 1 do not sum to the global batch");
  EXPECT_EQ(shares.check.slack, -2);
  EXPECT_EQ(shares.check.unit, "samples");
}

TEST_F(CheckerTest, SharesThatMicroBatchesDoNotDivide) {
  plan.stages[1].replicas[0].share = Samples(5);
  plan.stages[1].replicas[1].share = Samples(3);
  EXPECT_EQ(finding("shares-sum").because,
            "a replica of stage 1 has 5 samples, not a positive multiple of 2");
}

TEST_F(CheckerTest, SharesThatAreNotPositive) {
  plan.stages[1].replicas[0].share = Samples(8);
  plan.stages[1].replicas[1].share = Samples(0);
  EXPECT_FALSE(finding("shares-sum").check.holds);
  EXPECT_EQ(finding("timing").because, "stage 1: a replica has no samples");
}

TEST_F(CheckerTest, ABatchThatMicroBatchesDoNotDivide) {
  plan.microBatches = 3;
  EXPECT_EQ(finding("shares-sum").because,
            "the global batch is 8 samples, not a positive multiple of 3");
  for (int nonsense : {0, -2, std::numeric_limits<int>::min()}) {
    plan.microBatches = nonsense;
    EXPECT_FALSE(finding("shares-sum").check.holds);
    EXPECT_FALSE(finding("timing").check.holds);
  }
}

TEST_F(CheckerTest, SharesOutOfRangeAreRefused) {
  plan.stages[0].replicas[0].share = Samples(std::numeric_limits<int64_t>::max());
  plan.stages[0].replicas[1].share = Samples(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(finding("shares-sum").check.holds);
  EXPECT_NE(finding("timing").because.find("out of range"), std::string::npos);
}

TEST_F(CheckerTest, EachStatedTimeIsChecked) {
  Plan right = plan;
  auto fails = [&](auto &&change) {
    plan = right;
    change(plan);
    EXPECT_EQ(failing(), (Names{"timing"}));
  };
  fails([](Plan &p) { p.stages[0].forward += Seconds(1e-6); });
  fails([](Plan &p) { p.stages[1].backward += Seconds(1e-6); });
  fails([](Plan &p) { p.stages[1].receive = Seconds(0); });
  fails([](Plan &p) { p.stages[0].receiveGradient = Seconds(0); });
  fails([](Plan &p) { p.stages[0].sync += Seconds(1e-6); });
  fails([](Plan &p) { p.stages[0].update = Seconds(0); });
  fails([](Plan &p) { p.stages[0].replicas[1].forward = Seconds(1e-3); });
  fails([](Plan &p) { p.stages[1].replicas[0].backward = Seconds(1e-3); });
  fails([](Plan &p) { p.iteration = p.iteration * 0.99; });
  fails([](Plan &p) { p.costPerHour = DollarsPerHour(7); });
  fails([](Plan &p) { p.costPerMillionSamples = p.costPerMillionSamples * 0.9; });
}

TEST_F(CheckerTest, TimesMayDifferByRounding) {
  plan.stages[0].forward = plan.stages[0].forward * (1 + 5e-7);
  Finding timing = finding("timing");
  EXPECT_TRUE(timing.check.holds);
  EXPECT_NEAR(timing.check.slack, 5e-7, 1e-9);
  plan.stages[0].forward = plan.stages[0].forward * (1 + 1e-6);
  timing = finding("timing");
  EXPECT_FALSE(timing.check.holds);
  EXPECT_NEAR(timing.check.slack, -5e-7, 1e-9);
}

TEST_F(CheckerTest, FiguresThatAreNotFinite) {
  plan.iteration = Seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan.objectiveValue = std::numeric_limits<double>::infinity();
  EXPECT_EQ(failing(), (Names{"timing", "bound"}));
}

TEST_F(CheckerTest, EquallySlowReplicasOfTheLastStageMayNameEither) {
  costs.entry("c", "fast", {Seconds(2.5e-3), Seconds(0.5e-3), Seconds(4e-3), Seconds(0)});
  costs.entry("d", "fast", {Seconds(2.5e-3), Seconds(0.5e-3), Seconds(4e-3), Seconds(0)});
  Stage &last = plan.stages[1];
  last.replicas = {replica(4, 4e-3, 8e-3, {"slow", "cpu", 0}),
                   replica(4, 10e-3, 2e-3, {"fast", "gpu-1", 0})};
  DeviceGroup fast{{{0, 2}}}, both{{{0, 1}, {1, 1}}};
  last.memory = Bytes(4000 + 2 * 120 + 2 * 4);
  last.receive = transferTime(cluster, fast, Samples(2), both, Samples(2), Bytes(100), Bytes(0));
  last.sync = last.update + allReduceTime(cluster, both, Bytes(2000));
  plan.stages[0].backward = plan.stages[0].backward - plan.stages[0].receiveGradient;
  plan.stages[0].receiveGradient =
      transferTime(cluster, both, Samples(2), fast, Samples(2), Bytes(100), Bytes(0));
  plan.stages[0].backward += plan.stages[0].receiveGradient;
  for (auto [forward, backward] : {std::pair(4e-3, 8e-3), std::pair(10e-3, 2e-3)}) {
    last.forward = last.receive + Seconds(forward);
    last.backward = Seconds(backward);
    fillTotals();
    plan.costPerHour = DollarsPerHour(10);
    plan.costPerMillionSamples = plan.costPerHour * plan.iteration * (1e6 / 8);
    EXPECT_EQ(failing(), (Names{}));
  }
  last.forward = last.receive + Seconds(6e-3);
  last.backward = Seconds(6e-3); // no replica does that
  EXPECT_EQ(failing(), (Names{"timing"}));
}

TEST_F(CheckerTest, ABoundThatThePlanBeats) {
  plan.lowerBound = plan.objectiveValue * 0.75;
  Finding bound = finding("bound");
  EXPECT_FALSE(bound.check.holds);
  EXPECT_EQ(bound.because, "the plan is better than its own bound");
  EXPECT_NEAR(bound.check.slack, -0.25 * plan.objectiveValue, 1e-9);
}

TEST_F(CheckerTest, ABoundOfCostIsBelow) {
  plan.objective = Objective::Cost;
  plan.objectiveValue = plan.costPerMillionSamples.value();
  plan.lowerBound = plan.objectiveValue * 0.75;
  EXPECT_EQ(failing(), (Names{}));
  EXPECT_NEAR(finding("bound").check.slack, 0.25 * plan.objectiveValue, 1e-9);
  plan.lowerBound = plan.objectiveValue * 1.25;
  EXPECT_EQ(failing(), (Names{"bound"}));
}

TEST_F(CheckerTest, AGapThatIsNotThatOfItsBound) {
  plan.gap = 0.1;
  EXPECT_EQ(failing(), (Names{"bound"}));
  plan.gap = 0.25;
  plan.optimal = true;
  EXPECT_EQ(finding("bound").because, "a plan with a gap is called optimal");
  plan.lowerBound = plan.objectiveValue;
  plan.gap = 0;
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTest, AnObjectiveValueOfItsOwn) {
  plan.objectiveValue *= 1.01;
  plan.lowerBound = plan.objectiveValue * 1.25;
  EXPECT_EQ(failing(), (Names{"bound"}));
}

TEST_F(CheckerTest, TheThroughputFloor) {
  Finding floor = finding("throughput-floor");
  EXPECT_NEAR(floor.check.slack, plan.throughput.value() - 100, 1e-6);
  EXPECT_EQ(floor.check.unit, "samples/s");
  plan.minThroughput = plan.throughput * 1.5;
  EXPECT_EQ(failing(), (Names{"throughput-floor"}));
  EXPECT_NEAR(finding("throughput-floor").check.slack, -0.5 * plan.throughput.value(), 1e-6);
  plan.minThroughput = plan.throughput; // exactly met
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTest, AFloorIsNotMetByAFigureThatIsMadeUp) {
  plan.minThroughput = SamplesPerSecond(1000);
  plan.throughput = SamplesPerSecond(2000);
  plan.objectiveValue = 2000;
  plan.lowerBound = 2500;
  EXPECT_EQ(failing(), (Names{"timing", "throughput-floor"}));
}

TEST_F(CheckerTest, TheBudget) {
  EXPECT_DOUBLE_EQ(finding("budget").check.slack, 2);
  EXPECT_EQ(finding("budget").check.unit, "dollars/hour");
  plan.maxCostPerHour = DollarsPerHour(7.5);
  EXPECT_EQ(failing(), (Names{"budget"}));
  EXPECT_DOUBLE_EQ(finding("budget").check.slack, -0.5);
  plan.maxCostPerHour = DollarsPerHour(8);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTest, Pins) {
  plan.pins = {{"a", "fast"}, {"c", "slow"}};
  EXPECT_EQ(failing(), (Names{}));
  plan.pins = {{"a", "slow"}, {"c", "fast"}};
  Finding pins = finding("pins");
  EXPECT_EQ(pins.check.slack, -2);
  EXPECT_EQ(pins.because, "layer 'a' is pinned to slow and is not (or not only) there");
  plan.pins = {{"nobody", "fast"}};
  EXPECT_EQ(failing(), (Names{"pins"}));
}

TEST_F(CheckerTest, LayersTogetherAndApart) {
  plan.colocations = {{"a", "b"}, {"c", "d"}};
  plan.separations = {{"b", "c"}, {"a", "d"}};
  EXPECT_EQ(failing(), (Names{}));
  plan.colocations = {{"a", "b"}, {"a", "c"}};
  plan.separations = {{"a", "b", "c"}};
  EXPECT_EQ(failing(), (Names{"colocations", "separations"}));
  EXPECT_EQ(finding("colocations").check.slack, -1);
  EXPECT_EQ(finding("colocations").because, "layers 'a', 'c' are to be in one stage and are in 2");
  EXPECT_EQ(finding("separations").because,
            "layers 'a', 'b', 'c' are to be in a stage each and are in 2");
  plan.colocations = {{"a", "nobody"}};
  plan.separations.clear();
  EXPECT_EQ(failing(), (Names{"colocations"}));
}

TEST_F(CheckerTest, StalePlans) {
  graph.fingerprint = "other";
  Finding fingerprints = finding("fingerprints");
  EXPECT_FALSE(fingerprints.check.holds);
  EXPECT_EQ(fingerprints.because, "the plan was made for another version of model 'four'");
  graph.fingerprint = "f00d";
  cluster.fingerprint = "other";
  EXPECT_EQ(failing(), (Names{"fingerprints"}));
}

TEST_F(CheckerTest, SeveralChecksFailTogether) {
  plan.pins = {{"a", "slow"}};
  plan.maxCostPerHour = DollarsPerHour(1);
  plan.clusterFingerprint = "";
  EXPECT_EQ(failing(), (Names{"fingerprints", "budget", "pins"}));
}

TEST_F(CheckerTest, ALayerWithoutAPriceIsAnError) {
  costs = ConstantCostModel();
  llvm::Expected<std::vector<Check>> checks = checkPlan(plan, graph, cluster, costs);
  ASSERT_FALSE(bool(checks));
  EXPECT_NE(toText(checks.takeError()).find("HP1401"), std::string::npos);
}
} // namespace
