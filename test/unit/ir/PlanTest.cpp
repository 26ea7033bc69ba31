#include "ir/Plan.h"

#include "Diagnosed.h"
#include "SmallPlan.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

using namespace heterplan;
using heterplan::test::diagnosed;
using heterplan::test::smallPlan;

namespace {
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

struct Mutation {
  const char *message;
  std::function<void(Plan &)> change;
};
class PlanDefect : public testing::TestWithParam<Mutation> {};

TEST_P(PlanDefect, IsDiagnosed) {
  Plan plan = smallPlan();
  GetParam().change(plan);
  DiagnosticError error = diagnosed(plan.verify());
  EXPECT_EQ(error.code, Diag::InvalidPlan);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
  EXPECT_FALSE(error.location.element.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Plan, PlanDefect,
    testing::Values(
        Mutation{"global batch is 0", [](Plan &p) { p.globalBatch = Samples(0); }},
        Mutation{"global batch is 4294967296",
                 [](Plan &p) { p.globalBatch = Samples(int64_t(1) << 32); }},
        Mutation{"accepted are 1 to 16", [](Plan &p) { p.microBatches = 17; }},
        Mutation{"accepted are 1 to 16", [](Plan &p) { p.microBatches = 0; }},
        Mutation{"2^53", [](Plan &p) { p.seed = ~uint64_t(0); }},
        Mutation{"no stages", [](Plan &p) { p.stages.clear(); }},
        Mutation{"has one stage", [](Plan &p) { p.schedule = Schedule::DataParallel; }},
        Mutation{"stands at position", [](Plan &p) { p.stages[1].id = 2; }},
        Mutation{"no layers", [](Plan &p) { p.stages[1].layers.clear(); }},
        Mutation{"no replicas", [](Plan &p) { p.stages[1].replicas.clear(); }},
        Mutation{"placed twice", [](Plan &p) { p.stages[1].layers = {"a"}; }},
        Mutation{"share is 0", [](Plan &p) { p.stages[0].replicas[0].share = Samples(0); }},
        Mutation{"share is -4", [](Plan &p) { p.stages[0].replicas[0].share = Samples(-4); }},
        Mutation{"2 replicas have shares that are no multiples of the 4 micro-batches",
                 [](Plan &p) {
                   p.stages[0].replicas[0].share = Samples(11);
                   p.stages[0].replicas[1].share = Samples(5);
                 }},
        Mutation{"sum to 12", [](Plan &p) { p.stages[0].replicas[0].share = Samples(8); }},
        Mutation{"exceed the global batch",
                 [](Plan &p) { p.stages[0].replicas[0].share = Samples(int64_t(1) << 62); }},
        Mutation{"no devices", [](Plan &p) { p.stages[0].replicas[0].devices.clear(); }},
        Mutation{"lacks type", [](Plan &p) { p.stages[0].replicas[0].devices[0].type = ""; }},
        Mutation{"lacks type", [](Plan &p) { p.stages[0].replicas[0].devices[0].index = -1; }},
        Mutation{"used twice", [](Plan &p) { p.stages[0].replicas[1].devices[0].index = 0; }},
        Mutation{
            "is in two stages",
            [](Plan &p) { p.stages[1].replicas[0].devices = p.stages[0].replicas[1].devices; }},
        Mutation{"negative or not finite",
                 [](Plan &p) { p.stages[0].replicas[0].forward = Seconds(-1); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].forward = Seconds(notANumber); }},
        Mutation{"part of", [](Plan &p) { p.stages[1].receive = Seconds(4); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].receiveGradient = Seconds(10); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].update = Seconds(6); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].lookup = Seconds(4); }},
        Mutation{"part of", [](Plan &p) { p.stages[1].lookup = Seconds(2.5); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].lookupGradient = Seconds(7); }},
        Mutation{"part of", [](Plan &p) { p.stages[0].lookup = Seconds(-1); }},
        Mutation{"1 shards on 2 devices", [](Plan &p) { p.stages[0].tables = {{"t", {5}}}; }},
        Mutation{"a number of rows", [](Plan &p) { p.stages[0].tables = {{"t", {-1, 5}}}; }},
        Mutation{"a number of rows", [](Plan &p) { p.stages[0].tables = {{"", {1, 5}}}; }},
        Mutation{"a number of rows",
                 [](Plan &p) { p.stages[0].tables = {{"t", {int64_t(1) << 53, 2}}}; }},
        Mutation{"part of", [](Plan &p) { p.stages[0].memory = Bytes(-1); }},
        Mutation{"'throughput'", [](Plan &p) { p.throughput = SamplesPerSecond(notANumber); }},
        Mutation{"'iterationSeconds'", [](Plan &p) { p.iteration = Seconds(-1); }},
        Mutation{"'expectedSeconds'", [](Plan &p) { p.expected = Seconds(-1); }},
        Mutation{"between 0 and 1", [](Plan &p) { p.provenance[2] = 2; }},
        Mutation{"an interval has its time between",
                 [](Plan &p) { p.iterationInterval = {p.iteration * 1.1, p.iteration * 2}; }},
        Mutation{"an interval has its time between",
                 [](Plan &p) { p.iterationInterval = {p.iteration / 2, p.iteration * 2, 1.5}; }},
        Mutation{"slack", [](Plan &p) {
                   p.checks = {{"memory", true, notANumber, "bytes"}};
                 }}));
} // namespace

TEST(Plan, SmallOneIsValid) {
  auto error = smallPlan().verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
}

TEST(Plan, PlaceOfADefectNamesTheReplica) {
  Plan plan = smallPlan();
  plan.stages[0].replicas[1].devices.clear();
  EXPECT_EQ(diagnosed(plan.verify()).location.element, "stages[0].replicas[1]");
}

TEST(Plan, IterationTimeByHand) {
  std::vector<Stage> stages = smallPlan().stages;
  // The last stage's synchronisation of 2 hides behind the 9 of the first one's backward pass.
  EXPECT_DOUBLE_EQ(iterationTime(stages, 4, Schedule::OneForwardOneBackward).value(),
                   12 + 7.5 + 3 * 12 + 5);
  EXPECT_DOUBLE_EQ(iterationTime(stages, 4, Schedule::GPipe).value(), 12 + 7.5 + 3 * (3.5 + 9) + 5);
  stages[1].sync = Seconds(20);
  EXPECT_DOUBLE_EQ(iterationTime(stages, 1, Schedule::GPipe).value(), 12 + 7.5 + (20 - 9));
}
