// Memory, and the tables that devices share.
#include "Fixture.h"

using namespace heterplan;

namespace {
using CheckerMemoryTest = CheckerFixture;

TEST_F(CheckerMemoryTest, MemorySlackIsThatOfTheTightestDevice) {
  Finding memory = finding("memory");
  EXPECT_TRUE(memory.check.holds);
  EXPECT_EQ(memory.check.unit, "bytes");
  EXPECT_DOUBLE_EQ(memory.check.slack, 7000 - (5000 + 480 + 200 + 8));
  cluster.types[0].memory = Bytes(5600);
  memory = finding("memory");
  EXPECT_FALSE(memory.check.holds);
  EXPECT_DOUBLE_EQ(memory.check.slack, -88);
  EXPECT_EQ(memory.because, "stage 0 needs 5688 bytes on fast, which has 5600");
}

TEST_F(CheckerMemoryTest, MemoryThatIsExactlyEnough) {
  cluster.types[0].memory = Bytes(5688);
  EXPECT_EQ(failing(), (Names{}));
  EXPECT_EQ(finding("memory").check.slack, 0);
}

TEST_F(CheckerMemoryTest, WhatARankTakesBeyondItsTensorsCounts) {
  cluster.types[0].overhead = {Bytes(100), 2, 6, "test"};
  Finding memory = finding("memory");
  EXPECT_FALSE(memory.check.holds);
  EXPECT_EQ(memory.because, "stage 0 needs 11508 bytes on fast, which has 7000");
  cluster.types[0].memory = Bytes(11508);
  EXPECT_FALSE(finding("memory").check.holds) << "the plan states less";
  plan.stages[0].memory = Bytes(11508);
  EXPECT_EQ(finding("memory").check.slack, 0);
}

TEST_F(CheckerMemoryTest, OperandsOfTheLargestConvolutionCountAsOftenAsTheDeviceStates) {
  graph.layers[0].convolutionBytes = Bytes(30);
  EXPECT_TRUE(finding("memory").check.holds) << "the device states nothing";
  cluster.types[0].overhead = {Bytes(100), 1, 1, "test"};
  cluster.types[0].overhead.convolutions = 2;
  const Bytes need(100 + 5688 + 2 * 30 * 2); // of two samples
  cluster.types[0].memory = plan.stages[0].memory = need;
  EXPECT_EQ(finding("memory").check.slack, 0);
  cluster.types[0].memory = need - Bytes(1);
  EXPECT_FALSE(finding("memory").check.holds);
}

TEST_F(CheckerMemoryTest, HeadroomIsKeptFree) {
  plan.memoryHeadroom = 0.25;
  EXPECT_DOUBLE_EQ(finding("memory").check.slack, 0.75 * 7000 - 5688);
  EXPECT_NE(finding("memory").because.find("of which 25% are kept free"), std::string::npos);
  cluster.types[0].memory = Bytes(5688 / 0.75);
  EXPECT_TRUE(finding("memory").check.holds);
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
    timeLookups(12 / 20.0);
    first.sync = first.update + allReduceTime(cluster, fast, Bytes(2000 - 160));
    fillTotals();
  }

  /// Two samples of a device look up two rows each; the busiest device sends `part` of them.
  void timeLookups(double part) {
    Stage &first = plan.stages[0];
    const DeviceGroup fast{{{0, 2}}};
    const Bytes rows(2 * 2 * 8 * part / 0.5); // the costs are those of half of them
    first.forward += lookupCost(cluster, fast).time(rows) - first.lookup;
    first.backward += lookupGradientCost(cluster, fast).time(rows) - first.lookupGradient;
    first.lookup = lookupCost(cluster, fast).time(rows);
    first.lookupGradient = lookupGradientCost(cluster, fast).time(rows);
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
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  plan.stages[0].memory += Bytes(2 * 2 * 8);
  EXPECT_EQ(failing(), (Names{"timing"})) << "the larger part sends more";
  timeLookups(14 / 20.0);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(TableCheckerTest, LookupsAreTimed) {
  plan.stages[0].lookup = Seconds(0);
  EXPECT_EQ(failing(), (Names{"timing"}));
}

TEST_F(CheckerMemoryTest, GPipeHoldsAllMicroBatches) {
  plan.schedule = Schedule::GPipe;
  fillTotals();
  Finding memory = finding("memory"); // the last stage keeps two micro-batches now
  EXPECT_FALSE(memory.check.holds);
  plan.stages[1].memory += Bytes(3 * 120);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerMemoryTest, AMemoryFigureThatIsMadeUp) {
  plan.stages[0].memory = Bytes(4000);
  EXPECT_EQ(failing(), (Names{"memory"}));
  EXPECT_EQ(finding("memory").because,
            "stage 0 is stated to need 4000 bytes, which is not what its layers give");
}

} // namespace
