// Every line of Strategies.def, on the same problems.
#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "ir/FileForms.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "search/Search.h"
#include "search/verify/Checker.h"
#include "support/RandomProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <atomic>
#include <set>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
class EveryStrategy : public testing::TestWithParam<const char *> {
protected:
  llvm::Expected<SearchOutcome> solve(const Problem &problem, int threads = 1) {
    SearchOptions options;
    options.threads = threads;
    options.workLimit = 300'000; // plenty for problems of this size
    return search(problem, GetParam(), options);
  }
};

LayerGraph readModel(llvm::StringRef name) {
  std::string path = (HETERPLAN_TEST_DATA "/models/" + name + ".onnx").str();
  return llvm::cantFail(groupLayers(llvm::cantFail(importGraph(path))));
}

Cluster readBundledCluster(llvm::StringRef name) {
  const std::string profiles = HETERPLAN_SOURCE_DIR "/profiles";
  Cluster cluster = llvm::cantFail(readCluster((profiles + "/clusters/" + name + ".yaml").str()));
  llvm::cantFail(llvm::cantFail(Catalogue::load(profiles)).resolve(cluster));
  return cluster;
}

std::vector<const char *> names() {
  std::vector<const char *> result;
  for (const StrategyInfo &info : strategies())
    result.push_back(info.name);
  return result;
}
} // namespace

TEST_P(EveryStrategy, itsPlansPassTheIndependentChecks) {
  int plans = 0;
  for (int seed = 0; seed < 120; ++seed) {
    RandomProblem random(seed / 2);
    random.request.iterationModel =
        seed % 2 ? IterationModel::SteadyState : IterationModel::Synchronous;
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome outcome = llvm::cantFail(solve(problem));
    if (!outcome.plan)
      continue;
    ++plans;
    EXPECT_EQ(outcome.plan->strategy, GetParam());
    EXPECT_FALSE(bool(outcome.plan->verify())) << "seed " << seed;
    auto checks =
        llvm::cantFail(checkPlan(*outcome.plan, random.graph, random.cluster, random.costs));
    EXPECT_FALSE(checks.empty());
    for (const Check &check : checks)
      EXPECT_TRUE(check.holds) << "seed " << seed << ": " << check.name;
  }
  EXPECT_GT(plans, 10); // few problems have what gpu-only needs
}

TEST_P(EveryStrategy, neitherPlanNorBoundPassesTheOptimum) {
  for (int seed = 0; seed < 200; ++seed) {
    RandomProblem random(seed / 2);
    random.request.iterationModel =
        seed % 2 ? IterationModel::SteadyState : IterationModel::Synchronous;
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome outcome = llvm::cantFail(solve(problem));
    SearchOutcome best = llvm::cantFail(search(problem, "label-setting", {}));
    if (outcome.isProven()) {
      EXPECT_EQ(outcome.plan.has_value(), best.plan.has_value()) << "seed " << seed;
    }
    if (!outcome.plan)
      continue;
    ASSERT_TRUE(best.plan) << "seed " << seed;
    double sign = random.request.objective == Objective::Throughput ? -1 : 1;
    double optimum = sign * best.plan->objectiveValue, tolerance = 1e-9 * std::abs(optimum);
    EXPECT_GE(sign * outcome.plan->objectiveValue, optimum - tolerance) << "seed " << seed;
    EXPECT_LE(sign * outcome.plan->lowerBound, optimum + tolerance) << "seed " << seed;
  }
}

TEST_P(EveryStrategy, isDeterministic) {
  for (int seed = 0; seed < 20; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel =
        seed % 2 ? IterationModel::SteadyState : IterationModel::Synchronous;
    Problem problem = llvm::cantFail(random.problem());
    EXPECT_EQ(llvm::cantFail(solve(problem)).plan, llvm::cantFail(solve(problem, 2)).plan);
  }
}

TEST_P(EveryStrategy, givesTheSameFileOnAnyNumberOfThreads) {
  if (llvm::StringRef(GetParam()) == "exhaustive")
    GTEST_SKIP() << "these problems have too many placements";
  for (const char *model : {"ctrdnn", "dlrm"})
    for (IterationModel iterationModel :
         {IterationModel::Synchronous, IterationModel::SteadyState}) {
      RooflineModel costs(Optimizer::Sgd, Precision::Fp32);
      Request request;
      request.globalBatch = Samples(1024);
      request.iterationModel = iterationModel;
      Problem problem = llvm::cantFail(
          Problem::create(readModel(model), readBundledCluster("mixed-small"), costs, request));
      auto one = llvm::cantFail(solve(problem, 1)), two = llvm::cantFail(solve(problem, 2));
      ASSERT_EQ(one.plan.has_value(), two.plan.has_value());
      if (one.plan) {
        EXPECT_EQ(toJson(*one.plan), toJson(*two.plan)) << model << ", " << nameOf(iterationModel);
      }
    }
}

TEST_P(EveryStrategy, aFloorThatNothingReachesGivesNoPlan) {
  RandomProblem random(1);
  random.request.minThroughput = SamplesPerSecond(1e12);
  EXPECT_FALSE(llvm::cantFail(solve(llvm::cantFail(random.problem()))).plan);
}

/// The stages of `plan` that have `layer`, and the types that run them.
std::pair<std::set<int>, std::set<std::string>> placesOf(const Plan &plan,
                                                         const std::string &layer) {
  std::set<int> stages;
  std::set<std::string> types;
  for (const Stage &stage : plan.stages)
    if (llvm::is_contained(stage.layers, layer)) {
      stages.insert(stage.id);
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices)
          types.insert(device.type);
    }
  return {stages, types};
}

TEST_P(EveryStrategy, keepsPinsColocationsAndSeparations) {
  int kept = 0;
  for (int seed = 0; seed < 150; ++seed) {
    RandomProblem random(seed);
    random.request.minThroughput = SamplesPerSecond(0);
    random.request.maxCostPerHour = DollarsPerHour(0);
    const std::string first = random.graph.layers.front().name;
    const std::string last = random.graph.layers.back().name;
    if (seed % 3 == 0)
      random.request.pins = {{last, random.cluster.types.back().name}};
    if (first != last && seed % 3 == 1)
      random.request.colocations = {{first, last}};
    if (first != last && seed % 3 == 2)
      random.request.separations = {{first, last}};
    std::optional<Plan> plan = llvm::cantFail(solve(llvm::cantFail(random.problem()))).plan;
    if (!plan)
      continue;
    ++kept;
    for (const Pin &pin : random.request.pins)
      EXPECT_EQ(placesOf(*plan, pin.layer).second, std::set<std::string>{pin.type});
    for (const LayerSet &set : random.request.colocations)
      EXPECT_EQ(placesOf(*plan, set[0]).first, placesOf(*plan, set[1]).first);
    for (const LayerSet &set : random.request.separations)
      EXPECT_NE(placesOf(*plan, set[0]).first, placesOf(*plan, set[1]).first);
  }
  EXPECT_GT(kept, 10);
}

/// Cut short by `options` at once: whatever comes is valid, and what is claimed of it is true.
void holdsWhenCutShort(const char *strategy, const SearchOptions &options) {
  for (int seed = 0; seed < 60; ++seed) {
    RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    auto outcome = llvm::cantFail(search(problem, strategy, options));
    SearchOutcome best = llvm::cantFail(search(problem, "label-setting", {}));
    if (outcome.isProven()) {
      EXPECT_EQ(outcome.plan.has_value(), best.plan.has_value()) << "seed " << seed;
    }
    if (!outcome.plan)
      continue;
    ASSERT_TRUE(best.plan) << "seed " << seed;
    for (const Check &check :
         llvm::cantFail(checkPlan(*outcome.plan, random.graph, random.cluster, random.costs)))
      EXPECT_TRUE(check.holds) << "seed " << seed << ": " << check.name;
    double sign = random.request.objective == Objective::Throughput ? -1 : 1;
    double optimum = sign * best.plan->objectiveValue, tolerance = 1e-9 * std::abs(optimum);
    EXPECT_LE(sign * outcome.plan->lowerBound, optimum + tolerance) << "seed " << seed;
  }
}

TEST_P(EveryStrategy, interruptedItsPlansAndBoundsHold) {
  std::atomic<bool> stop{true};
  SearchOptions options;
  options.stop = &stop;
  holdsWhenCutShort(GetParam(), options);
}

TEST_P(EveryStrategy, outOfTimeItsPlansAndBoundsHold) {
  SearchOptions options;
  options.deadline = Deadline::after(Seconds(1e-9));
  holdsWhenCutShort(GetParam(), options);
}

TEST_P(EveryStrategy, passesOnWhatTheCostModelCannotSay) {
  RandomProblem random(1);
  random.costs = ConstantCostModel();
  auto outcome = solve(llvm::cantFail(random.problem()));
  ASSERT_FALSE(outcome);
  EXPECT_NE(toText(outcome.takeError()).find("HP1401"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy, testing::ValuesIn(names()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });
