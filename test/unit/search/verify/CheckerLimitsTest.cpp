// The checks of the constraints that the user set.
#include "Fixture.h"

using namespace heterplan;

namespace {
using CheckerLimitsTest = CheckerFixture;

TEST_F(CheckerLimitsTest, TheThroughputFloor) {
  Finding floor = finding("throughput-floor");
  EXPECT_NEAR(floor.check.slack, plan.throughput.value() - 100, 1e-6);
  EXPECT_EQ(floor.check.unit, "samples/s");
  plan.minThroughput = plan.throughput * 1.5;
  EXPECT_EQ(failing(), (Names{"throughput-floor"}));
  EXPECT_NEAR(finding("throughput-floor").check.slack, -0.5 * plan.throughput.value(), 1e-6);
  plan.minThroughput = plan.throughput; // exactly met
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerLimitsTest, AFloorIsNotMetByAFigureThatIsMadeUp) {
  plan.minThroughput = SamplesPerSecond(1000);
  plan.throughput = SamplesPerSecond(2000);
  plan.objectiveValue = 2000;
  plan.lowerBound = 2500;
  EXPECT_EQ(failing(), (Names{"timing", "throughput-floor"}));
}

TEST_F(CheckerLimitsTest, TheBudget) {
  EXPECT_DOUBLE_EQ(finding("budget").check.slack, 2);
  EXPECT_EQ(finding("budget").check.unit, "dollars/hour");
  plan.maxCostPerHour = DollarsPerHour(7.5);
  EXPECT_EQ(failing(), (Names{"budget"}));
  EXPECT_DOUBLE_EQ(finding("budget").check.slack, -0.5);
  plan.maxCostPerHour = DollarsPerHour(8);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(CheckerLimitsTest, Pins) {
  plan.pins = {{"a", "fast"}, {"c", "slow"}};
  EXPECT_EQ(failing(), (Names{}));
  plan.pins = {{"a", "slow"}, {"c", "fast"}};
  Finding pins = finding("pins");
  EXPECT_EQ(pins.check.slack, -2);
  EXPECT_EQ(pins.because, "layer 'a' is pinned to slow and is not (or not only) there");
  plan.pins = {{"nobody", "fast"}};
  EXPECT_EQ(failing(), (Names{"pins"}));
}

TEST_F(CheckerLimitsTest, LayersTogetherAndApart) {
  plan.colocations = {{"a", "b"}, {"c", "d"}};
  plan.separations = {{"b", "c"}, {"a", "d"}};
  EXPECT_EQ(failing(), (Names{}));
  plan.colocations = {{"a", "b"}, {"a", "c"}};
  plan.separations = {{"a", "b", "c"}};
  EXPECT_EQ(failing(), (Names{"separations", "colocations"}));
  EXPECT_EQ(finding("colocations").check.slack, -1);
  EXPECT_EQ(finding("colocations").because, "layers 'a', 'c' are to be in one stage and are in 2");
  EXPECT_EQ(finding("separations").because,
            "layers 'a', 'b', 'c' are to be in a stage each and are in 2");
  plan.colocations = {{"a", "nobody"}};
  plan.separations.clear();
  EXPECT_EQ(failing(), (Names{"colocations"}));
}

} // namespace
