// Which plans are searched for beside the chosen one, and which of those that are found are kept.
#include "search/Alternatives.h"

#include "cost/ConstantCostModel.h"
#include "support/RandomProblem.h"
#include "support/TwoLayers.h"

#include "gtest/gtest.h"

#include <map>

using namespace heterplan;

namespace {
Problem twoBoxes(const CostModel &costs) {
  Request request;
  request.globalBatch = Samples(8);
  return llvm::cantFail(Problem::create(test::twoLayers(Bytes(200), Bytes(100)),
                                        test::boxes(2, Seconds(0.001)), costs, request));
}

/// A plan of `value` samples/s with `stages` stages of one device each.
Plan planOf(const Problem &problem, int stages, double value) {
  Plan plan;
  plan.objective = Objective::Throughput;
  plan.throughput = SamplesPerSecond(value);
  plan.objectiveValue = value;
  plan.lowerBound = 20;
  for (int id = 0; id < stages; ++id) {
    Stage &stage = plan.stages.emplace_back();
    stage.id = id;
    stage.forward = Seconds(value);
    stage.replicas = {{Samples(8), {}, {}, {{problem.cluster.types[0].stated(), "n", id}}}};
  }
  return plan;
}
} // namespace

TEST(Alternatives, AConditionIsOneMoreThanTheUserHad) {
  ConstantCostModel costs({Seconds(1), Seconds(2), Seconds(0), Seconds(1)});
  Problem problem = twoBoxes(costs);
  const std::string type = problem.cluster.types[0].stated();
  problem.request.deviceLimits = {{type, 1}};
  Plan pipeline = planOf(problem, 2, 10), single = planOf(problem, 1, 10);
  EXPECT_TRUE(problemsOfPipeline(problem, pipeline).empty());
  EXPECT_TRUE(problemsOfDataParallel(problem, single).empty());
  ASSERT_EQ(problemsOfDataParallel(problem, pipeline).size(), 1u);
  EXPECT_EQ(problemsOfDataParallel(problem, pipeline)[0].request.schedule,
            ScheduleChoice::DataParallel);
  EXPECT_TRUE(problemsOfOneTypeFewer(problem, pipeline).empty()) << "there is one type only";
  EXPECT_TRUE(problemsOfHalfTheDevices(problem, single).empty()) << "one device has no half";
  std::vector<Problem> half = problemsOfHalfTheDevices(problem, pipeline);
  ASSERT_EQ(half.size(), 1u);
  ASSERT_EQ(half[0].request.deviceLimits.size(), 1u);
  EXPECT_EQ(half[0].request.deviceLimits[0], (DeviceLimit{type, 1}));
}

TEST(Alternatives, TheBestAreKeptWithTheBoundOfThePlan) {
  ConstantCostModel costs({Seconds(1), Seconds(2), Seconds(0), Seconds(1)});
  Problem problem = twoBoxes(costs);
  Plan chosen = planOf(problem, 2, 10);
  auto search = [&](const Problem &each) -> llvm::Expected<SearchOutcome> {
    SearchOutcome outcome;
    bool isSingle = each.request.schedule == ScheduleChoice::DataParallel;
    outcome.plan = planOf(problem, 1, isSingle ? 4 : 5);
    outcome.plan->deviceLimits = each.request.deviceLimits;
    return outcome;
  };
  AlternativeOptions options;
  auto both = llvm::cantFail(alternativesTo(problem, chosen, search, options));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].kind, AlternativeKind::HalfTheDevices);
  EXPECT_EQ(both[1].kind, AlternativeKind::DataParallel);
  EXPECT_TRUE(both[0].plan.deviceLimits.empty()) << "the user asked for no limit";
  EXPECT_EQ(both[0].plan.lowerBound, 20);
  EXPECT_EQ(both[0].plan.gap, 3);
  EXPECT_DOUBLE_EQ(shareWorse(both[1].plan, chosen), 0.6);
  EXPECT_EQ(worseText(both[1].plan, chosen), "60% worse");
  options.most = 1;
  EXPECT_EQ(llvm::cantFail(alternativesTo(problem, chosen, search, options)).size(), 1u);
  options.stop = [] { return true; };
  EXPECT_TRUE(llvm::cantFail(alternativesTo(problem, chosen, search, options)).empty());
}

TEST(Alternatives, PlansWithinTheErrorOfTheirRatioMayChangePlaces) {
  ConstantCostModel costs({Seconds(1), Seconds(2), Seconds(0), Seconds(1)});
  Problem problem = twoBoxes(costs);
  Plan chosen = planOf(problem, 2, 10), close = planOf(problem, 2, 8), far = planOf(problem, 2, 7),
       other = planOf(problem, 1, 7);
  EXPECT_FALSE(mayChangePlaces(close, chosen)) << "no intervals are stated";
  for (Plan *plan : {&chosen, &close, &far, &other}) {
    plan->iteration = Seconds(1);
    plan->iterationInterval = {Seconds(0.5), Seconds(2)};
  }
  other.stages.front().replicas.front().devices.front().type = "another";
  EXPECT_TRUE(mayChangePlaces(close, chosen));
  EXPECT_EQ(worseText(close, chosen), "20% worse, too close to tell");
  EXPECT_FALSE(mayChangePlaces(far, chosen)) << "one model on the same devices: a ratio is surer";
  EXPECT_TRUE(mayChangePlaces(other, chosen));
}

TEST(Alternatives, ThePlanItselfIsNone) {
  ConstantCostModel costs({Seconds(1), Seconds(2), Seconds(0), Seconds(1)});
  Problem problem = twoBoxes(costs);
  Plan chosen = planOf(problem, 2, 10);
  auto search = [&](const Problem &) -> llvm::Expected<SearchOutcome> {
    SearchOutcome outcome;
    outcome.plan = chosen;
    return outcome;
  };
  EXPECT_TRUE(llvm::cantFail(alternativesTo(problem, chosen, search, {})).empty());
}

TEST(Alternatives, DrawnPlansDifferInDevicesAndCuts) {
  int others = 0, cuts = 0;
  for (int seed = 0; seed < 30; ++seed) {
    test::RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome best = llvm::cantFail(search(problem, "auto", {}));
    if (!best.plan)
      continue;
    auto isNew = [&](const Plan &plan) { return plan.stages != best.plan->stages; };
    DrawnPlans drawn = llvm::cantFail(drawPlans(problem, *best.plan, {}, isNew));
    auto devicesOf = [](const Plan &plan) {
      std::map<std::string, int> counts;
      for (const Stage &stage : plan.stages)
        for (const Replica &replica : stage.replicas)
          for (const DeviceRef &device : replica.devices)
            ++counts[device.type];
      return counts;
    };
    auto layersOf = [](const Plan &plan) {
      std::vector<std::vector<std::string>> layers;
      for (const Stage &stage : plan.stages)
        layers.push_back(stage.layers);
      return layers;
    };
    for (const std::optional<Plan> *plan : {&drawn.otherDevices, &drawn.otherCuts}) {
      if (!*plan)
        continue;
      double worse = shareWorse(**plan, *best.plan);
      EXPECT_GE(worse, -1e-9) << "seed " << seed << ": better than the optimum";
      EXPECT_LE(worse, 0.25 + 1e-9) << "seed " << seed;
      EXPECT_FALSE((*plan)->optimal);
      EXPECT_NEAR((*plan)->lowerBound / best.plan->lowerBound, 1, 1e-6) << "seed " << seed;
    }
    if (drawn.otherDevices) {
      EXPECT_NE(devicesOf(*drawn.otherDevices), devicesOf(*best.plan)) << "seed " << seed;
      ++others;
    }
    if (drawn.otherCuts) {
      EXPECT_NE(layersOf(*drawn.otherCuts), layersOf(*best.plan)) << "seed " << seed;
      ++cuts;
    }
  }
  EXPECT_GT(others, 3);
  EXPECT_GT(cuts, 3);
}

TEST(Alternatives, DrawnPlansStandBesideTheOthers) {
  ConstantCostModel costs({Seconds(1), Seconds(2), Seconds(0), Seconds(1)});
  Problem problem = twoBoxes(costs);
  Plan chosen = planOf(problem, 2, 10), other = planOf(problem, 1, 9);
  auto search = [&](const Problem &) -> llvm::Expected<SearchOutcome> { return SearchOutcome(); };
  AlternativeOptions options;
  options.draw = [&](const Problem &, const Plan &, IsNew isNew) -> llvm::Expected<DrawnPlans> {
    EXPECT_FALSE(isNew(chosen));
    EXPECT_TRUE(isNew(other));
    return DrawnPlans{other, chosen};
  };
  auto found = llvm::cantFail(alternativesTo(problem, chosen, search, options));
  ASSERT_EQ(found.size(), 1u) << "the plan itself is none";
  EXPECT_EQ(found[0].kind, AlternativeKind::OtherDevices);
  EXPECT_EQ(found[0].plan.lowerBound, 20);
}
