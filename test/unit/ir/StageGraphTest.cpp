// Plans in which stages follow several others: what travels between them, when they run, and what
// is refused.
#include "ir/StageGraph.h"
#include "cost/Simulator.h"
#include "ir/FileForms.h"

#include "SharedPlan.h"

#include <gtest/gtest.h>

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// f goes to a, b and j; a and b go to j.
LayerGraph forkGraph() {
  LayerGraph graph;
  graph.model = "small";
  for (const char *name : {"f", "a", "b", "j"}) {
    Layer layer;
    layer.name = layer.signature = name;
    graph.layers.push_back(layer);
  }
  for (auto [producer, consumers] : {std::pair(0, std::vector{1, 2, 3}),
                                     std::pair(1, std::vector{3}), std::pair(2, std::vector{3})}) {
    LayerTensor tensor;
    tensor.name = "t" + std::to_string(producer);
    tensor.producer = producer;
    tensor.consumers = consumers;
    tensor.shape = {{1, 0}, {0, 3}};
    graph.tensors.push_back(tensor);
  }
  return graph;
}

Stage stageOn(int id, const char *layer, std::vector<int> cpus, std::vector<StageInput> inputs,
              double forward) {
  Stage stage;
  stage.id = id;
  stage.layers = {layer};
  for (int cpu : cpus)
    stage.replicas.push_back(smallReplica(8 / int64_t(cpus.size()), forward, "cpu", cpu));
  stage.inputs = std::move(inputs);
  for (const StageInput &input : stage.inputs)
    stage.receive += input.receive;
  stage.forward = stage.receive + Seconds(forward);
  stage.backward = Seconds(2 * forward);
  stage.update = stage.sync = Seconds(1);
  return stage;
}

/// f and j on CPUs 0 and 1, a on 0 and b on 1.
Plan forkPlan() {
  Plan plan;
  plan.model = plan.cluster = "small";
  plan.globalBatch = Samples(8);
  plan.schedule = Schedule::Burst;
  plan.stages = {stageOn(0, "f", {0, 1}, {}, 2),
                 stageOn(1, "a", {0}, {{0, Seconds(1), Seconds(0)}}, 3),
                 stageOn(2, "b", {1}, {{0, Seconds(1), Seconds(0)}}, 5),
                 stageOn(3, "j", {0, 1},
                         {{0, Seconds(0), Seconds(0)},
                          {1, Seconds(0.5), Seconds(0)},
                          {2, Seconds(0.5), Seconds(0)}},
                         2)};
  return plan;
}

std::string refusal(const Plan &plan) { return toText(plan.verify()); }
} // namespace

TEST(StageGraph, AChainHandsOnWhatLaterStagesRead) {
  Plan plan = forkPlan();
  for (Stage &stage : plan.stages)
    stage.inputs.clear();
  StageGraph graph(plan.stages);
  EXPECT_TRUE(graph.isChain());
  LayerGraph layers = forkGraph();
  auto crossing = llvm::cantFail(graph.route(layers, {0, 1, 2, 3}));
  std::vector<Cut> cuts = layers.cuts();
  for (int link = 0; link < 3; ++link)
    EXPECT_EQ(crossing[link], cuts[link + 1].tensors);
}

TEST(StageGraph, TensorsTakeTheLinkThatLeadsFarthest) {
  StageGraph graph(forkPlan().stages);
  EXPECT_FALSE(graph.isChain());
  EXPECT_EQ(graph.links(), (std::vector<StageLink>{{0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}}));
  auto crossing = llvm::cantFail(graph.route(forkGraph(), {0, 1, 2, 3}));
  EXPECT_EQ(crossing, (std::vector<std::vector<int>>{{0}, {0}, {0}, {1}, {2}}));
  EXPECT_TRUE(graph.follows(3, 1));
  EXPECT_FALSE(graph.follows(2, 1));
}

TEST(StageGraph, WithoutALinkOfItsOwnATensorGoesThroughABranch) {
  Plan plan = forkPlan();
  plan.stages[3].inputs.erase(plan.stages[3].inputs.begin());
  auto crossing = llvm::cantFail(StageGraph(plan.stages).route(forkGraph(), {0, 1, 2, 3}));
  EXPECT_EQ(crossing, (std::vector<std::vector<int>>{{0}, {0}, {1}, {0, 2}}));
}

TEST(StageGraph, ATensorThatNoLinkBringsIsRefused) {
  Plan plan = forkPlan();
  LayerGraph graph = forkGraph();
  graph.tensors[1].consumers = {2, 3}; // b reads a
  auto crossing = StageGraph(plan.stages).route(graph, {0, 1, 2, 3});
  ASSERT_FALSE(bool(crossing));
  EXPECT_NE(toText(crossing.takeError()).find("reads 't1' of stage 1, which it does not follow"),
            std::string::npos);
}

/// As a file may say.
TEST(StageGraph, StagesOutOfOrderAreRefused) {
  for (llvm::ArrayRef<int> begins : {llvm::ArrayRef<int>({1, 2, 2, 3}), {0, 3, 2, 1}, {}}) {
    auto crossing = StageGraph(forkPlan().stages).route(forkGraph(), begins);
    ASSERT_FALSE(bool(crossing));
    EXPECT_NE(toText(crossing.takeError()).find("in their order"), std::string::npos);
  }
}

/// 2 forward, then 1 + 3 beside 1 + 5, a half second to each device at the join, 2; twice as long
/// back; updates of two stages on each device.
TEST(StageGraph, BranchesOnDevicesOfTheirOwnRunAtTheSameTime) {
  Program program = llvm::cantFail(lower(forkPlan(), forkGraph(), smallCluster()));
  ASSERT_FALSE(bool(program.verify()));
  Simulation simulation = llvm::cantFail(simulate(program));
  for (const TimelineEvent &event : simulation.timeline.events) {
    if (event.op == Op::Forward && event.stage == 2) {
      EXPECT_DOUBLE_EQ(event.begin.value(), 2 + 1);
    }
    if (event.op == Op::Forward && event.stage == 3) {
      EXPECT_DOUBLE_EQ(event.begin.value(), 2 + 1 + 5 + 0.5);
    }
  }
  EXPECT_DOUBLE_EQ(simulation.timeline.iteration.value(), (2 + 6 + 0.5 + 2) + (4 + 10 + 4) + 3);
}

TEST(StageGraph, FilesKeepLinks) {
  Plan plan = forkPlan();
  Plan read = llvm::cantFail(parsePlan(toJson(plan), "plan.json"));
  EXPECT_EQ(read.stages, plan.stages);
  Program program = llvm::cantFail(lower(plan, forkGraph(), smallCluster()));
  RankFile file = llvm::cantFail(parseRankFile(toJson(program, 1), "0001.json"));
  EXPECT_EQ(file.program.links, program.links);
  EXPECT_EQ(file.program.ranks[0], program.ranks[1]);
}

TEST(StageGraph, WrongInputsAreRefused) {
  Plan plan = forkPlan();
  plan.stages[1].inputs[0].stage = 1;
  EXPECT_NE(refusal(plan).find("input 1 is out of order"), std::string::npos);
  plan = forkPlan();
  plan.schedule = Schedule::Interleaved;
  EXPECT_NE(refusal(plan).find("which burst plans alone do"), std::string::npos);
  plan = forkPlan();
  plan.stages[3].inputs.pop_back();
  EXPECT_NE(refusal(plan).find("no stage follows it"), std::string::npos);
  plan = forkPlan();
  plan.stages[1].inputs[0].receive = Seconds(-1);
  EXPECT_NE(refusal(plan).find("a time of input 0"), std::string::npos);
}

TEST(StageGraph, BranchesAtTheSameTimeShareNoDevice) {
  Plan plan = forkPlan();
  plan.stages[2].replicas[0].devices[0].index = 0;
  EXPECT_NE(refusal(plan).find("shares a device with stage 1, which it does not follow"),
            std::string::npos);
}

TEST(StageGraph, ProgramsWithWrongLinksAreRefused) {
  Program program = llvm::cantFail(lower(forkPlan(), forkGraph(), smallCluster()));
  Program changed = program;
  std::swap(changed.links[0], changed.links[1]);
  EXPECT_TRUE(bool(changed.verify()));
  changed = program;
  changed.ranks[0].parts[0].sends[0].boundary = 4;
  EXPECT_NE(toText(changed.verify()).find("tensors that cross no link of its stage"),
            std::string::npos);
  changed = program;
  changed.schedule = Schedule::Interleaved;
  EXPECT_TRUE(bool(changed.verify()));
}
