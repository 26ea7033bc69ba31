// How the exact search ends, and what it does with stages that only fit in another way.
#include "cost/ConstantCostModel.h"
#include "search/Search.h"
#include "support/TwoLayers.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <atomic>
#include <random>

using namespace heterplan;

namespace {
struct LabelSettingTest : testing::Test {
  LayerGraph graph = test::twoLayers(Bytes(400), Bytes(4));
  Cluster cluster = test::boxes(2, Seconds(0.1));
  ConstantCostModel costs;
  Request request;

  LabelSettingTest() {
    costs.layer("a", {Seconds(1), Seconds(2), Seconds(1), Seconds(0)});
    costs.layer("b", {Seconds(1), Seconds(2), Seconds(1), Seconds(0)});
    for (Layer &layer : graph.layers)
      layer.activationBytes = Bytes(100);
    request.globalBatch = Samples(8);
    request.optimizer = Optimizer::Adam;
  }
  SearchOutcome solve(SearchOptions options = {}) {
    Problem problem = llvm::cantFail(Problem::create(graph, cluster, costs, request));
    return llvm::cantFail(search(problem, "label-setting", options));
  }
};
} // namespace

TEST_F(LabelSettingTest, endsWithAProof) {
  SearchOutcome outcome = solve();
  ASSERT_TRUE(outcome.plan);
  EXPECT_EQ(outcome.termination, Termination::Optimal);
  EXPECT_TRUE(outcome.plan->optimal);
  cluster.types[0].memory = Bytes(10);
  outcome = solve();
  EXPECT_FALSE(outcome.plan);
  EXPECT_EQ(outcome.termination, Termination::Infeasible);
}

TEST_F(LabelSettingTest, findsOnlyWhatBeatsAnotherValue) {
  for (Objective objective : {Objective::Throughput, Objective::Cost}) {
    request.objective = objective;
    const double best = solve().plan->objectiveValue;
    SearchOptions options;
    options.toBeat = best;
    SearchOutcome outcome = solve(options);
    EXPECT_FALSE(outcome.plan);
    EXPECT_EQ(outcome.termination, Termination::Infeasible);
    options.toBeat = objective == Objective::Throughput ? best * 0.999 : best * 1.001;
    outcome = solve(options);
    ASSERT_TRUE(outcome.plan);
    EXPECT_EQ(outcome.plan->objectiveValue, best);
    EXPECT_TRUE(outcome.plan->optimal);
  }
}

TEST_F(LabelSettingTest, endsWhenToldTo) {
  std::atomic<bool> stop = true;
  SearchOptions options;
  options.stop = &stop;
  request.objective = Objective::Cost;
  graph.layers.back().activationBytes = Bytes(1); // unequal halves: no bound is reached at once
  SearchOutcome outcome = solve(options);
  if (outcome.termination != Termination::Optimal) {
    EXPECT_EQ(outcome.termination, Termination::Interrupted);
  }
}

namespace {
/// A chain of 80 layers of uneven times, of which a search first looks at 40 cuts, on six devices.
struct LongChainTest : testing::Test {
  static constexpr int layers = 80;
  LayerGraph graph;
  Cluster cluster = test::boxes(6, Seconds(1e-4));
  ConstantCostModel costs;
  Request request;

  void fill(int seed) {
    graph = {};
    std::mt19937 random(seed);
    for (int i = 0; i < layers; ++i) {
      Layer layer;
      layer.name = layer.signature = "l" + std::to_string(i);
      layer.parameterBytes = Bytes(4000);
      graph.layers.push_back(layer);
      const Seconds time(1 + double(random() % 100) / 10);
      costs.layer(layer.name, {time, time * 2, Seconds(0), Seconds(0.5)});
    }
    for (int i = 0; i + 1 < layers; ++i) {
      LayerTensor tensor;
      tensor.name = "t" + std::to_string(i);
      tensor.producer = i;
      tensor.consumers = {i + 1};
      tensor.bytesPerSample = Bytes(1 + double(random() % 50));
      graph.tensors.push_back(tensor);
    }
    request.globalBatch = Samples(48);
  }
  SearchOutcome solve(const SearchOptions &options) {
    Problem problem = llvm::cantFail(Problem::create(graph, cluster, costs, request));
    return llvm::cantFail(search(problem, "label-setting", options));
  }
};
} // namespace

TEST_F(LongChainTest, aFirstLookIsNoBetterThanASearchAndSaysSo) {
  fill(0);
  SearchOptions options;
  const SearchOutcome whole = solve(options);
  options.firstLook = true;
  const SearchOutcome look = solve(options);
  ASSERT_TRUE(whole.plan && look.plan);
  EXPECT_FALSE(whole.isFirstLook);
  EXPECT_TRUE(whole.plan->optimal);
  EXPECT_TRUE(look.isFirstLook);
  EXPECT_LE(look.plan->throughput, whole.plan->throughput);
  EXPECT_FALSE(look.space.leftOut.empty());
  EXPECT_LT(look.work, whole.work);
}

// Bounds over all cuts come first then, and must not rule the best plan out.
TEST_F(LongChainTest, FindsAPlanThatBeatsAnotherValueAndNoOther) {
  for (Objective objective : {Objective::Throughput, Objective::Cost})
    for (int seed = 0; seed < 6; ++seed) {
      fill(seed);
      request.objective = objective;
      SearchOptions options;
      const SearchOutcome whole = solve(options);
      ASSERT_TRUE(whole.plan && whole.plan->optimal);
      const double best = whole.plan->objectiveValue;
      options.toBeat = objective == Objective::Throughput ? best * (1 - 1e-6) : best * (1 + 1e-6);
      const SearchOutcome better = solve(options);
      ASSERT_TRUE(better.plan) << "seed " << seed;
      EXPECT_TRUE(better.plan->optimal);
      EXPECT_DOUBLE_EQ(better.plan->objectiveValue, best) << "seed " << seed;
      options.toBeat = best;
      const SearchOutcome none = solve(options);
      EXPECT_FALSE(none.plan);
      EXPECT_EQ(none.termination, Termination::Infeasible) << "seed " << seed;
      EXPECT_LE(none.work, whole.work);
    }
}

// With too many stages for all numbers of micro-batches, one number after another sees all cuts.
TEST_F(LongChainTest, findsThePlanOverAllCutsThoughTheyAreTooMany) {
  int best = 0;
  for (int seed = 0; seed < 12; ++seed) {
    fill(seed);
    SearchOptions options;
    const SearchOutcome whole = solve(options);
    options.tuning.mostStages = 4000;
    const SearchOutcome few = solve(options);
    ASSERT_TRUE(whole.plan && few.plan);
    ASSERT_TRUE(whole.plan->optimal);
    EXPECT_LE(few.plan->throughput, whole.plan->throughput * (1 + 1e-9)) << "seed " << seed;
    EXPECT_GE(few.plan->throughput, whole.plan->throughput * 0.99) << "seed " << seed;
    EXPECT_TRUE(llvm::any_of(few.space.leftOut, [](const std::string &part) {
      return llvm::StringRef(part).endswith(" of 79 cuts");
    }));
    best += few.plan->throughput > whole.plan->throughput * (1 - 1e-9);
  }
  EXPECT_EQ(best, 12);
}

TEST_F(LabelSettingTest, recomputesOnlyWhereItHasTo) {
  request.shardState = StateSharding::None;
  SearchOutcome free = solve();
  ASSERT_TRUE(free.plan);
  for (const Stage &stage : free.plan->stages)
    EXPECT_TRUE(stage.recompute.empty());
  // one sample of both layers, but not its activations of both at a time
  cluster.types[0].memory = Bytes(4 * 800 + 2 * 400 + 4 + 100);
  request.schedule = ScheduleChoice::DataParallel;
  SearchOutcome tight = solve();
  ASSERT_TRUE(tight.plan);
  EXPECT_EQ(tight.plan->stages[0].recompute, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(tight.plan->stages[0].memory, Bytes(4 * 800 + 2 * 400 + 4 + 100));
  request.recompute = RecomputePolicy::Never;
  EXPECT_EQ(solve().termination, Termination::Infeasible);
}

TEST_F(LabelSettingTest, ShardsStateWhereThatSavesTimeOrMemory) {
  request.schedule = ScheduleChoice::DataParallel;
  SearchOutcome free = solve();
  ASSERT_TRUE(free.plan);
  EXPECT_EQ(free.plan->stages[0].sharding.state, StateSharding::Optimizer) << "a faster update";
  cluster.types[0].memory = Bytes(2 * 800 + 2 * 400 + 800 + 200);
  SearchOutcome tight = solve();
  ASSERT_TRUE(tight.plan);
  EXPECT_EQ(tight.plan->stages[0].sharding.state, StateSharding::Optimizer);
  EXPECT_EQ(tight.plan->stages[0].replicas.size(), 2u);
  request.shardState = StateSharding::None;
  EXPECT_EQ(solve().termination, Termination::Infeasible);
}

TEST_F(LabelSettingTest, everyStageAsAsked) {
  request.recompute = RecomputePolicy::Always;
  request.shardState = StateSharding::Gradients;
  SearchOutcome outcome = solve();
  ASSERT_TRUE(outcome.plan);
  for (const Stage &stage : outcome.plan->stages) {
    EXPECT_FALSE(stage.recompute.empty());
    EXPECT_EQ(stage.sharding.state,
              stage.replicas.size() > 1 ? StateSharding::Gradients : StateSharding::None);
  }
  request.iterationModel = IterationModel::SteadyState;
  llvm::Expected<Problem> problem = Problem::create(graph, cluster, costs, request);
  ASSERT_FALSE(problem);
  EXPECT_NE(toText(problem.takeError()).find("is not supported under the iteration model"),
            std::string::npos);
}

TEST_F(LabelSettingTest, aMemberThatFailsIsAnError) {
  costs = ConstantCostModel().layer("a", {Seconds(1), Seconds(2), Seconds(1), Seconds(0)});
  Problem problem = llvm::cantFail(Problem::create(graph, cluster, costs, request));
  llvm::Expected<SearchOutcome> outcome = search(problem, "auto", {});
  ASSERT_FALSE(outcome);
  EXPECT_NE(toText(outcome.takeError()).find("HP1401"), std::string::npos);
}
