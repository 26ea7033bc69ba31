// The check as a whole.
#include "Fixture.h"

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
