// Shares, times, and what is claimed of the optimum.
#include "Fixture.h"

#include <limits>

using namespace heterplan;

namespace {
using CheckerTimesTest = CheckerFixture;

TEST_F(CheckerTimesTest, SharesThatDoNotSum) {
  plan.stages[1].replicas[1].share = Samples(4);
  Finding shares = finding("shares-sum");
  EXPECT_EQ(shares.because, "the shares of stage 1 do not sum to the global batch");
  EXPECT_EQ(shares.check.slack, -2);
  EXPECT_EQ(shares.check.unit, "samples");
}

TEST_F(CheckerTimesTest, SharesThatMicroBatchesDoNotDivide) {
  plan.stages[1].replicas[0].share = Samples(5);
  plan.stages[1].replicas[1].share = Samples(3);
  EXPECT_EQ(finding("shares-sum").because,
            "more than one share of stage 1 is no multiple of the 2 micro-batches");
}

TEST_F(CheckerTimesTest, SharesThatAreNotPositive) {
  plan.stages[1].replicas[0].share = Samples(8);
  plan.stages[1].replicas[1].share = Samples(0);
  EXPECT_FALSE(finding("shares-sum").check.holds);
  EXPECT_EQ(finding("timing").because, "stage 1: a replica has no samples");
}

TEST_F(CheckerTimesTest, MoreMicroBatchesThanSamples) {
  plan.microBatches = 9;
  EXPECT_EQ(finding("shares-sum").because,
            "there are 9 micro-batches of the 8 samples of the global batch");
  for (int nonsense : {0, -2, std::numeric_limits<int>::min()}) {
    plan.microBatches = nonsense;
    EXPECT_FALSE(finding("shares-sum").check.holds);
    EXPECT_FALSE(finding("timing").check.holds);
  }
}

TEST_F(CheckerTimesTest, SharesOutOfRangeAreRefused) {
  plan.stages[0].replicas[0].share = Samples(std::numeric_limits<int64_t>::max());
  plan.stages[0].replicas[1].share = Samples(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(finding("shares-sum").check.holds);
  EXPECT_NE(finding("timing").because.find("out of range"), std::string::npos);
}

TEST_F(CheckerTimesTest, EachStatedTimeIsChecked) {
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
  fails([](Plan &p) { p.expected = *p.expected * 0.99; });
  fails([](Plan &p) { p.expected = p.iteration * 1.01; });
  fails([](Plan &p) { p.costPerHour = DollarsPerHour(7); });
  fails([](Plan &p) { p.costPerMillionSamples = p.costPerMillionSamples * 0.9; });
}

TEST_F(CheckerTimesTest, TimesMayDifferByRounding) {
  plan.stages[0].forward = plan.stages[0].forward * (1 + 5e-7);
  Finding timing = finding("timing");
  EXPECT_TRUE(timing.check.holds);
  EXPECT_NEAR(timing.check.slack, 5e-7, 1e-9);
  plan.stages[0].forward = plan.stages[0].forward * (1 + 1e-6);
  timing = finding("timing");
  EXPECT_FALSE(timing.check.holds);
  EXPECT_NEAR(timing.check.slack, -5e-7, 1e-9);
}

TEST_F(CheckerTimesTest, FiguresThatAreNotFinite) {
  plan.iteration = Seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan.objectiveValue = std::numeric_limits<double>::infinity();
  EXPECT_EQ(failing(), (Names{"timing", "bound"}));
}

TEST_F(CheckerTimesTest, EquallySlowReplicasOfTheLastStageMayNameEither) {
  costs.entry("c", "fast", {Seconds(2.5e-3), Seconds(0.5e-3), Seconds(4e-3), Seconds(0)});
  costs.entry("d", "fast", {Seconds(2.5e-3), Seconds(0.5e-3), Seconds(4e-3), Seconds(0)});
  Stage &last = plan.stages[1];
  last.replicas = {replica(4, 4e-3, 8e-3, {"slow", "cpu", 0}),
                   replica(4, 10e-3, 2e-3, {"fast", "gpu-1", 0})};
  DeviceGroup fast{{{0, 2}}}, both{{{0, 1}, {1, 1}}};
  last.memory = Bytes(5000 + 2 * 120 + 2 * 100 + 2 * 4);
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

TEST_F(CheckerTimesTest, ABoundThatThePlanBeats) {
  plan.lowerBound = plan.objectiveValue * 0.75;
  Finding bound = finding("bound");
  EXPECT_FALSE(bound.check.holds);
  EXPECT_EQ(bound.because, "the plan is better than its own bound");
  EXPECT_NEAR(bound.check.slack, -0.25 * plan.objectiveValue, 1e-9);
}

TEST_F(CheckerTimesTest, NoBoundOfThroughputLeavesAGapOfTheWholePlan) {
  plan.lowerBound = 0;
  plan.gap = 1;
  EXPECT_EQ(failing(), (Names{}));
  plan.gap = 0.5;
  EXPECT_EQ(failing(), (Names{"bound"}));
  plan.gap = 1;
  plan.optimal = true;
  EXPECT_EQ(failing(), (Names{"bound"}));
}

TEST_F(CheckerTimesTest, ABoundOfCostIsBelow) {
  plan.objective = Objective::Cost;
  plan.objectiveValue = plan.costPerMillionSamples.value();
  plan.lowerBound = plan.objectiveValue * 0.75;
  EXPECT_EQ(failing(), (Names{}));
  EXPECT_NEAR(finding("bound").check.slack, 0.25 * plan.objectiveValue, 1e-9);
  plan.lowerBound = plan.objectiveValue * 1.25;
  EXPECT_EQ(failing(), (Names{"bound"}));
}

TEST_F(CheckerTimesTest, AGapThatIsNotThatOfItsBound) {
  plan.gap = 0.1;
  EXPECT_EQ(failing(), (Names{"bound"}));
  plan.gap = 0.25;
  plan.optimal = true;
  EXPECT_EQ(finding("bound").because, "a plan with a gap is called optimal");
  plan.lowerBound = plan.objectiveValue;
  plan.gap = 0;
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerTimesTest, AnObjectiveValueOfItsOwn) {
  plan.objectiveValue *= 1.01;
  plan.lowerBound = plan.objectiveValue * 1.25;
  EXPECT_EQ(failing(), (Names{"bound"}));
}

} // namespace
