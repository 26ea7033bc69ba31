// Placements priced by hand.
#include "cost/ConstantCostModel.h"
#include "search/Search.h"
#include "search/placement/PlanBuilder.h"
#include "support/TwoLayers.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Two layers, 1 s + 2 s and 2 s + 4 s a sample (forward + backward); 100 bytes a sample between
/// them. Two machines of one device each, 100 B/s and 0.5 s between them, $3.60 an hour each.
struct TwoMachines {
  LayerGraph graph = test::twoLayers(Bytes(200), Bytes(100));
  Cluster cluster = test::boxes(2, Seconds(0.5));
  ConstantCostModel costs;
  Request request;

  TwoMachines() {
    costs.layer("a", {Seconds(1), Seconds(2), Seconds(0), Seconds(0)});
    costs.layer("b", {Seconds(2), Seconds(4), Seconds(0), Seconds(0)});
    request.globalBatch = Samples(4);
  }
  Problem problem() const {
    return llvm::cantFail(Problem::create(graph, cluster, costs, request));
  }
};
} // namespace

TEST(Evaluator, dataParallelByHand) {
  TwoMachines setup;
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  auto evaluation = evaluator.evaluate({{{0, 2, DeviceGroup{{{0, 2}}}}}, 1});
  ASSERT_TRUE(evaluation);
  // 2 samples each: 2·9 s; ring of two over 400 bytes: 2·(1/2)·400/100 + 2·0.5.
  EXPECT_DOUBLE_EQ(evaluation->iteration.value(), 18 + 4 + 1);
  EXPECT_DOUBLE_EQ(evaluation->price.value(), 7.2);
}

TEST(Evaluator, pipelineByHand) {
  TwoMachines setup;
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  DeviceGroup one{{{0, 1}}};
  auto evaluation = evaluator.evaluate({{{0, 1, one}, {1, 2, one}}, 4});
  ASSERT_TRUE(evaluation);
  // One sample a micro-batch. Transfers: 0.5 + 100/100 = 1.5 s each way.
  // τ_1 = 1 + (2 + 1.5) = 4.5, τ_2 = (2 + 1.5) + 4 = 7.5; 4.5 + 7.5 + 3·7.5.
  EXPECT_DOUBLE_EQ(evaluation->stages[0].time().value(), 4.5);
  EXPECT_DOUBLE_EQ(evaluation->stages[1].time().value(), 7.5);
  EXPECT_DOUBLE_EQ(evaluation->iteration.value(), 34.5);
}

TEST(Evaluator, gradientsOfLaterMicroBatchesAreAddedByHand) {
  TwoMachines setup;
  setup.costs.layer("a", {Seconds(1), Seconds(2), Seconds(0), Seconds(0), Seconds(0.5)});
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  DeviceGroup one{{{0, 1}}};
  // 4 samples of 9 s, whatever the micro-batches; all but the first of which are added to it
  for (int microBatches : {1, 2, 4}) {
    auto evaluation = evaluator.evaluate({{{0, 2, one}}, microBatches});
    ASSERT_TRUE(evaluation);
    EXPECT_DOUBLE_EQ(evaluation->iteration.value(), 36 + (microBatches - 1) * 0.5);
  }
}

TEST(Evaluator, refusesWhatDoesNotFit) {
  TwoMachines setup;
  setup.cluster.types[0].memory = Bytes(900); // a stage of both layers needs 2·400 + 200
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  DeviceGroup one{{{0, 1}}};
  EXPECT_FALSE(evaluator.evaluate({{{0, 2, one}}, 1}));
  EXPECT_TRUE(evaluator.evaluate({{{0, 1, one}, {1, 2, one}}, 4}));
  EXPECT_FALSE(evaluator.evaluate({{{0, 1, one}, {1, 2, one}}, 1})) << "4 samples are sent";
  EXPECT_FALSE(evaluator.evaluate({{{0, 1, one}, {1, 2, DeviceGroup{{{0, 2}}}}}, 1}))
      << "three devices of two";
}

TEST(Search, errors) {
  TwoMachines setup;
  Problem problem = setup.problem();
  auto unknown = search(problem, "magic", {});
  ASSERT_FALSE(unknown);
  std::string text = toText(unknown.takeError());
  EXPECT_NE(text.find("HP1502"), std::string::npos) << text;
  EXPECT_NE(text.find("label-setting"), std::string::npos) << text;

  ConstantCostModel nothing;
  Problem unpriced =
      llvm::cantFail(Problem::create(setup.graph, setup.cluster, nothing, setup.request));
  auto missing = search(unpriced, "auto", {});
  ASSERT_FALSE(missing);
  text = toText(missing.takeError());
  EXPECT_NE(text.find("HP1401"), std::string::npos) << text;
}

TEST(Search, aPinnedLayerNeedsNoPriceElsewhere) {
  TwoMachines setup;
  setup.cluster.types.push_back(setup.cluster.types[0]);
  setup.cluster.types[1].name = "other";
  setup.cluster.nodes.push_back(setup.cluster.nodes[0]);
  setup.cluster.nodes[1].name = "others";
  setup.cluster.nodes[1].devices = {{"other", 1}};
  setup.costs = ConstantCostModel();
  ConstantCostModel::Times times{Seconds(1), Seconds(2), Seconds(0), Seconds(0)};
  setup.costs.entry("a", "box", times).entry("b", "box", times).entry("b", "other", times);
  setup.request.pins = {{"a", "box"}};
  SearchOutcome outcome = llvm::cantFail(search(setup.problem(), "auto", {}));
  EXPECT_TRUE(outcome.plan);
}

TEST(Search, infeasibleIsAResult) {
  TwoMachines setup;
  setup.request.minThroughput = SamplesPerSecond(1000);
  SearchOutcome outcome = llvm::cantFail(search(setup.problem(), "auto", {}));
  EXPECT_FALSE(outcome.plan);
  EXPECT_TRUE(outcome.isProven());
}

TEST(Problem, badRequests) {
  auto codeOf = [](const TwoMachines &setup) {
    auto problem = Problem::create(setup.graph, setup.cluster, setup.costs, setup.request);
    return problem ? std::string("accepted") : toText(problem.takeError());
  };
  TwoMachines batch, pin, type, limit, micro, together, apart, one;
  batch.request.globalBatch = Samples(0);
  EXPECT_NE(codeOf(batch).find("HP1216"), std::string::npos);
  pin.request.pins = {{"z", "box"}};
  EXPECT_NE(codeOf(pin).find("HP1301"), std::string::npos);
  type.request.pins = {{"a", "tpu"}};
  EXPECT_NE(codeOf(type).find("HP1213"), std::string::npos);
  limit.request.minThroughput = SamplesPerSecond(-1);
  EXPECT_NE(codeOf(limit).find("HP1216"), std::string::npos);
  micro.request.microBatches = static_cast<int>(micro.request.globalBatch.value()) + 1;
  EXPECT_NE(codeOf(micro).find("HP1216"), std::string::npos);
  together.request.colocations = {{"a", "z"}};
  EXPECT_NE(codeOf(together).find("HP1301"), std::string::npos);
  apart.request.separations = {{"a", "a"}};
  EXPECT_NE(codeOf(apart).find("HP1216"), std::string::npos);
  one.request.separations = {{"a"}};
  EXPECT_NE(codeOf(one).find("HP1216"), std::string::npos);
}

TEST(Evaluator, replicasSumStatisticsByHand) {
  TwoMachines setup;
  setup.graph.layers[1].inPassAllReduces = 3;
  setup.graph.layers[1].inPassAllReduceBytes = Bytes(60);
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  Placement both{{{0, 2, DeviceGroup{{{0, 2}}}}}, 2};
  auto evaluation = evaluator.evaluate(both);
  ASSERT_TRUE(evaluation);
  // One sample each a micro-batch, 9 s; three rings of two over 60 bytes together in either pass.
  double sums = 3 * 2 * 0.5 + 2 / 2.0 * 60 / 100;
  EXPECT_DOUBLE_EQ(evaluation->stages[0].forward.value(), 3 + sums);
  EXPECT_DOUBLE_EQ(evaluation->stages[0].backward.value(), 6 + sums);
  EXPECT_DOUBLE_EQ(evaluation->iteration.value(), 2 * (9 + 2 * sums) + 4 + 1);
  Plan plan = llvm::cantFail(PlanBuilder(evaluator, both).build(0));
  EXPECT_DOUBLE_EQ(plan.stages[0].replicas[1].forward.value(), 3 + sums);
  // one machine has nobody to ask
  auto alone = evaluator.evaluate({{{0, 2, DeviceGroup{{{0, 1}}}}}, 2});
  ASSERT_TRUE(alone);
  EXPECT_DOUBLE_EQ(alone->iteration.value(), 36);
}

TEST(Evaluator, tablesAreSharedAndLookedUpByHand) {
  TwoMachines setup;
  setup.graph.layers[0].parameters = {"t"};
  setup.graph.layers[0].tables = {{"t", 5, 4, DataType::Float32, 3}}; // 80 of its 200 bytes
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  Placement both{{{0, 2, DeviceGroup{{{0, 2}}}, {}, ExecutionMode()}}, 1};
  auto evaluation = evaluator.evaluate(both);
  ASSERT_TRUE(evaluation);
  // 2 samples each look up 6 rows of 16 bytes, half of them elsewhere, at 100 B/s and 0.5 s; saying
  // how many and which takes 0.5 s each. The ring is one over 320 bytes.
  double lookup = 48 / 100.0 + 1.5, gradient = 48 / 100.0 + 0.5;
  EXPECT_DOUBLE_EQ(evaluation->stages[0].lookup.value(), lookup);
  EXPECT_DOUBLE_EQ(evaluation->stages[0].lookupGradient.value(), gradient);
  EXPECT_DOUBLE_EQ(evaluation->iteration.value(), 18 + lookup + gradient + 3.2 + 1);
  Plan plan = llvm::cantFail(PlanBuilder(evaluator, both).build(0));
  ASSERT_EQ(plan.stages[0].tables.size(), 1u);
  EXPECT_EQ(plan.stages[0].tables[0].rows, (std::vector<int64_t>{3, 2}));
  // two copies of 320 bytes, a gradient under way, 3 rows and gradients of 3
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.value(), 2 * 320 + 200 + 16 * (3 + 3));
  // one machine holds all 5 rows and exchanges none
  auto alone = evaluator.evaluate({{{0, 2, DeviceGroup{{{0, 1}}}}}, 1});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->stages[0].lookup, Seconds(0));
  EXPECT_DOUBLE_EQ(alone->iteration.value(), 36);
}

TEST(Evaluator, aTableThatFitsNoDeviceFitsTwo) {
  TwoMachines setup;
  setup.graph.layers[0].parameters = {"t"};
  setup.graph.layers[0].tables = {{"t", 12, 4, DataType::Float32, 1}}; // 192 bytes
  setup.cluster.types[0].memory = Bytes(2 * 208 + 200 + 16 * (6 + 4));
  Problem problem = setup.problem();
  Evaluator evaluator(problem);
  EXPECT_TRUE(evaluator.evaluate({{{0, 2, DeviceGroup{{{0, 2}}}}}, 1}));
  EXPECT_FALSE(evaluator.evaluate({{{0, 2, DeviceGroup{{{0, 1}}}}}, 1}));
}
