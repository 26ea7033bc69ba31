#include "search/explain/Explain.h"

#include "cost/ConstantCostModel.h"
#include "search/explain/FigureText.h"
#include "support/Prove.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
using Names = std::vector<std::string>;

llvm::Expected<SearchOutcome> solveAll(const Problem &problem, Effort = Effort::BestPlan) {
  return search(problem, "auto", {});
}

/// Two layers of 1 s and 2 s per sample (3 s in all); four fast devices of twice that speed and 3
/// $/h, four slow ones of 1 $/h. One fast device takes 8 samples in 12 s, a slow one in 24 s.
struct ExplainTest : ::testing::Test {
  Problem problem;
  ConstantCostModel costs;

  ExplainTest() {
    for (const char *name : {"a", "b"}) {
      Layer layer;
      layer.name = layer.signature = name;
      layer.parameterBytes = Bytes(1000);
      problem.graph.layers.push_back(layer);
    }
    LayerTensor tensor;
    tensor.name = "t";
    tensor.consumers = {1};
    tensor.bytesPerSample = Bytes(1);
    problem.graph.tensors.push_back(tensor);
    costs.layer("a", {Seconds(0.25), Seconds(0.75), Seconds(0), Seconds(0)});
    costs.layer("b", {Seconds(0.5), Seconds(1.5), Seconds(0), Seconds(0)});
    costs.speed("fast", 2);
    Link link{"", BytesPerSecond(1e9), Seconds(0), ""};
    problem.cluster.name = "test";
    problem.cluster.types.resize(2);
    setType(0, "fast", 3);
    setType(1, "slow", 1);
    problem.cluster.nodes.push_back({"f", 1, {{"fast", 4}}, "", link, "", {}});
    problem.cluster.nodes.push_back({"s", 1, {{"slow", 4}}, "", link, "", {}});
    problem.cluster.network = link;
    problem.costs = &costs;
    problem.request.globalBatch = Samples(8);
  }

  void setMemory(double bytes) {
    for (DeviceType &type : problem.cluster.types)
      type.memory = Bytes(bytes);
  }

  void setType(size_t index, const char *name, double price) {
    problem.cluster.types[index].name = name;
    problem.cluster.types[index].memory = Bytes(1e6);
    problem.cluster.types[index].price = DollarsPerHour(price);
  }

  static bool feasible(const Problem &problem) {
    llvm::Expected<SearchOutcome> outcome = solveAll(problem);
    EXPECT_TRUE(bool(outcome));
    return outcome->plan.has_value();
  }

  Explanation explanation(Prove prove = nullptr) {
    EXPECT_FALSE(feasible(problem));
    llvm::Expected<Explanation> result = explain(problem, solveAll, prove);
    if (!result) {
      ADD_FAILURE() << toText(result.takeError());
      return {};
    }
    return *result;
  }

  static const Relaxation *find(const Explanation &explanation, const std::string &subject) {
    for (const Relaxation &relaxation : explanation.relaxations)
      if (relaxation.subject == subject)
        return &relaxation;
    return nullptr;
  }
};

TEST_F(ExplainTest, AFloorThatCannotBeReached) {
  problem.request.minThroughput = SamplesPerSecond(50000);
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"throughput of at least 50000 samples/s"}));
  EXPECT_TRUE(result.proven);
  const Relaxation *floor = find(result, "best throughput");
  ASSERT_TRUE(floor);
  EXPECT_EQ(floor->current, "50000 samples/s");
  EXPECT_TRUE(floor->helps);
  EXPECT_TRUE(floor->smallest);
  EXPECT_EQ(floor->option, "--min-throughput " + roundedDown(floor->value));
  problem.request.minThroughput = SamplesPerSecond(floor->value);
  EXPECT_TRUE(feasible(problem));
  problem.request.minThroughput = SamplesPerSecond(floor->value * 1.0001);
  EXPECT_FALSE(feasible(problem));
}

TEST_F(ExplainTest, WhereTheSearchLeavesPlansOutThereMayBeABetterOne) {
  auto solveSome = [](const Problem &some, Effort) {
    llvm::Expected<SearchOutcome> outcome = search(some, "exhaustive", {});
    if (outcome)
      outcome->space.leftOut = {"3 of 4 cuts"};
    return outcome;
  };
  problem.request.minThroughput = SamplesPerSecond(50000);
  Explanation result = llvm::cantFail(explain(problem, solveSome, nullptr));
  ASSERT_TRUE(find(result, "best throughput"));
  EXPECT_FALSE(find(result, "best throughput")->smallest);
  problem.request.minThroughput = SamplesPerSecond(0);
  problem.request.maxIteration = Seconds(1e-6);
  result = llvm::cantFail(explain(problem, solveSome, nullptr));
  ASSERT_TRUE(find(result, "shortest iteration"));
  EXPECT_FALSE(find(result, "shortest iteration")->smallest);
}

TEST_F(ExplainTest, MoreDevicesReachAFloor) {
  problem.cluster.nodes[0].devices["fast"] = 1;
  problem.cluster.nodes.pop_back();
  problem.request.minThroughput = SamplesPerSecond(1.3); // one fast device does 2/3
  Explanation result = explanation();
  const Relaxation *devices = find(result, "devices of type fast");
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->current, "1");
  EXPECT_EQ(devices->needed, "2");
  EXPECT_FALSE(find(result, "devices of type slow"));
  problem.cluster.nodes[0].count = 2;
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, ABudgetBelowTheCheapestDevice) {
  problem.request.maxCostPerHour = DollarsPerHour(0.25);
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"at most 0.25 dollars/hour"}));
  ASSERT_EQ(result.relaxations.size(), 1u);
  const Relaxation &budget = result.relaxations.front();
  EXPECT_EQ(budget.needed, "1 dollars/hour");
  EXPECT_EQ(budget.option, "--max-cost-per-hour 1");
  EXPECT_TRUE(budget.smallest);
  problem.request.maxCostPerHour = DollarsPerHour(budget.value);
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, AFloorAndABudgetThatEachCouldBeHad) {
  problem.request.minThroughput = SamplesPerSecond(1.9); // 9 $/h at 2/3 samples/s each
  problem.request.maxCostPerHour = DollarsPerHour(4);
  for (bool proof : {false, true}) {
    Explanation result = proof ? explanation(test::proveConflict) : explanation();
    EXPECT_EQ(result.conflict,
              (Names{"at most 4 dollars/hour", "throughput of at least 1.9 samples/s"}));
    const Relaxation *budget = find(result, "least budget");
    const Relaxation *floor = find(result, "best throughput");
    ASSERT_TRUE(budget && floor);
    Problem relaxed = problem;
    relaxed.request.maxCostPerHour = DollarsPerHour(budget->value);
    EXPECT_TRUE(feasible(relaxed));
    relaxed.request.maxCostPerHour = DollarsPerHour(budget->value * 0.99);
    EXPECT_FALSE(feasible(relaxed));
    relaxed = problem;
    relaxed.request.minThroughput = SamplesPerSecond(floor->value);
    EXPECT_TRUE(feasible(relaxed));
    relaxed.request.minThroughput = SamplesPerSecond(floor->value * 1.001);
    EXPECT_FALSE(feasible(relaxed));
  }
}

TEST_F(ExplainTest, MemoryThatHoldsNoLayer) {
  problem.cluster.types[0].memory = problem.cluster.types[1].memory = Bytes(1500);
  Explanation result = explanation(test::proveConflict);
  EXPECT_EQ(result.conflict, (Names{"the memory of the devices"}));
  const Relaxation *memory = find(result, "memory of slow");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->current, "1500 bytes");
  EXPECT_TRUE(find(result, "memory of fast"));
  problem.cluster.types[1].memory = Bytes(memory->value);
  EXPECT_TRUE(feasible(problem));
  problem.cluster.types[1].memory = Bytes(memory->value * 0.98);
  EXPECT_FALSE(feasible(problem));
}

TEST_F(ExplainTest, MemoryThatHoldsNoShareOfATable) {
  Layer &layer = problem.graph.layers[0];
  layer.tables = {{"t", 10'000, 25, DataType::Float32, 1}}; // 1 MB, gradients of 8 rows
  layer.parameters = {"t"};
  layer.parameterBytes = Bytes(1e6);
  auto memory = [&](double bytes) {
    problem.cluster.types[0].memory = problem.cluster.types[1].memory = Bytes(bytes);
  };
  memory(130e3); // eight devices hold 125 kB each, and the other layer
  EXPECT_TRUE(feasible(problem));
  memory(120e3);
  EXPECT_EQ(explanation(test::proveConflict).conflict, (Names{"the memory of the devices"}));
  auto proof = test::proveConflict(problem);
  ASSERT_TRUE(bool(proof)) << toText(proof.takeError());
  ASSERT_TRUE(proof->has_value()); // by Z3, without a search
  EXPECT_EQ(**proof, (Names{"memory"}));
}

TEST_F(ExplainTest, MemoryOfSeveralTypesAtOnce) {
  problem.request.pins = {{"a", "fast"}, {"b", "slow"}};
  problem.cluster.types[0].memory = Bytes(1000);
  problem.cluster.types[1].memory = Bytes(1200);
  Explanation result = explanation();
  const Relaxation *memory = find(result, "memory of all types");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->current, "1000 bytes");
  for (DeviceType &type : problem.cluster.types)
    type.memory = std::max(type.memory, Bytes(memory->value));
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, APinToADeviceThatIsTooSmall) {
  problem.cluster.types[0].memory = Bytes(1500);
  problem.request.pins = {{"a", "slow"}, {"b", "fast"}};
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"the memory of the devices", "layer 'b' on fast"}));
  const Relaxation *pin = find(result, "layer 'b'");
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->needed, "on slow");
  EXPECT_EQ(pin->option, "without --pin b=fast");
  ASSERT_TRUE(find(result, "memory of fast"));
  EXPECT_FALSE(find(result, "memory of slow"));
  problem.request.pins.pop_back();
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, TwoPinsOfOneLayer) {
  problem.request.pins = {{"a", "slow"}, {"a", "fast"}};
  for (bool proof : {false, true}) {
    Explanation result = proof ? explanation(test::proveConflict) : explanation();
    EXPECT_EQ(result.conflict, (Names{"layer 'a' on slow", "layer 'a' on fast"}));
    EXPECT_EQ(result.relaxations.size(), 2u);
  }
}

TEST_F(ExplainTest, APinAndAFloor) {
  problem.request.pins = {{"b", "slow"}};
  problem.request.minThroughput = SamplesPerSecond(2.5);
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"layer 'b' on slow", "throughput of at least 2.5 samples/s"}));
  EXPECT_TRUE(find(result, "layer 'b'"));
  EXPECT_TRUE(find(result, "best throughput"));
}

TEST_F(ExplainTest, APipelineOfOneLayer) {
  problem.graph.layers.pop_back();
  problem.graph.tensors.clear();
  problem.request.schedule = ScheduleChoice::Pipeline;
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"a pipeline of at least two stages"}));
  ASSERT_EQ(result.relaxations.size(), 1u);
  EXPECT_EQ(result.relaxations.front().needed, "data-parallel");
  EXPECT_EQ(result.relaxations.front().option, "--schedule auto");
}

TEST_F(ExplainTest, MicroBatchesAndAFloor) {
  problem.request.microBatches = 8; // one sample each: only two devices can work at once
  problem.request.minThroughput = SamplesPerSecond(2);
  Explanation result = explanation();
  EXPECT_EQ(result.conflict, (Names{"8 micro-batches", "throughput of at least 2 samples/s"}));
  const Relaxation *microBatches = find(result, "micro-batches");
  ASSERT_TRUE(microBatches);
  problem.request.microBatches = int(microBatches->value);
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, TwoConflictsAtOnceMustGiveWayTogether) {
  problem.graph.layers.pop_back();
  problem.graph.tensors.clear();
  problem.request.schedule = ScheduleChoice::Pipeline;
  problem.request.maxCostPerHour = DollarsPerHour(0.5);
  Explanation result = explanation();
  EXPECT_EQ(result.conflict.size(), 1u);
  ASSERT_EQ(result.relaxations.size(), 2u);
  for (const Relaxation &relaxation : result.relaxations)
    EXPECT_FALSE(relaxation.helps);
  EXPECT_NE(toText(result).find("all of these together"), std::string::npos);
  problem.request.schedule = ScheduleChoice::Auto;
  problem.request.maxCostPerHour = DollarsPerHour(result.relaxations.back().value);
  EXPECT_TRUE(feasible(problem));
}

TEST_F(ExplainTest, LayersTogetherThatDoNotFit) {
  setMemory(3500); // both need 4000 on a device, of which one sample takes one
  problem.request.globalBatch = Samples(1);
  problem.request.colocations = {{"a", "b"}};
  for (bool proof : {false, true}) {
    Explanation result = proof ? explanation(test::proveConflict) : explanation();
    EXPECT_EQ(result.conflict,
              (Names{"the memory of the devices", "layers 'a', 'b' in one stage"}));
    const Relaxation *apart = find(result, "layers 'a', 'b'");
    ASSERT_TRUE(apart);
    EXPECT_EQ(apart->needed, "in 2 stages");
    EXPECT_EQ(apart->option, "without --colocate a,b");
    EXPECT_TRUE(find(result, "memory of slow"));
  }
}

TEST_F(ExplainTest, LayersApartOnTooFewDevices) {
  problem.cluster.nodes[0].devices["fast"] = 1;
  problem.cluster.nodes.pop_back();
  problem.request.separations = {{"b", "a"}};
  for (bool proof : {false, true}) {
    Explanation result = proof ? explanation(test::proveConflict) : explanation();
    EXPECT_EQ(result.conflict, (Names{"layers 'b', 'a' in a stage each"}));
    const Relaxation *devices = find(result, "devices of type fast");
    ASSERT_TRUE(devices);
    EXPECT_EQ(devices->deviceType, "fast");
    EXPECT_EQ(devices->needed, "2");
    EXPECT_TRUE(find(result, "layers 'b', 'a'"));
  }
}

TEST_F(ExplainTest, UnderHeterPsAFloorAndABudgetAreProven) {
  problem.request.iterationModel = IterationModel::SteadyState;
  problem.request.minThroughput = SamplesPerSecond(1.9);
  problem.request.maxCostPerHour = DollarsPerHour(4);
  Names expected{"budget", "throughput-floor"};
  EXPECT_EQ(llvm::cantFail(test::proveConflict(problem)), expected);
  problem.request.minThroughput = SamplesPerSecond(0.1);
  EXPECT_FALSE(llvm::cantFail(test::proveConflict(problem)));
}

TEST_F(ExplainTest, ATypeWithoutDevicesNeedsNoPrice) {
  problem.cluster.types.resize(3);
  setType(2, "gone", 1);
  costs = ConstantCostModel();
  for (const char *layer : {"a", "b"})
    for (const char *type : {"fast", "slow"})
      costs.entry(layer, type, {Seconds(1), Seconds(1), Seconds(0), Seconds(0)});
  problem.request.minThroughput = SamplesPerSecond(100);
  EXPECT_EQ(llvm::cantFail(test::proveConflict(problem)), Names{"throughput-floor"});
}

TEST_F(ExplainTest, NothingAtAll) {
  auto solve = [](const Problem &, Effort) -> llvm::Expected<SearchOutcome> {
    return SearchOutcome{std::nullopt, Termination::Infeasible, {}};
  };
  llvm::Expected<Explanation> result = explain(problem, solve);
  ASSERT_TRUE(bool(result));
  EXPECT_TRUE(result->conflict.empty());
  EXPECT_TRUE(result->relaxations.empty());
  EXPECT_NE(toText(*result).find("none was found even without them"), std::string::npos);
}

TEST_F(ExplainTest, WhatIsNotProvenSaysSo) {
  problem.request.minThroughput = SamplesPerSecond(50000);
  auto solve = [](const Problem &problem, Effort) -> llvm::Expected<SearchOutcome> {
    llvm::Expected<SearchOutcome> outcome = search(problem, "auto", {});
    if (outcome)
      outcome->termination = Termination::Limit;
    return outcome;
  };
  llvm::Expected<Explanation> result = explain(problem, solve);
  ASSERT_TRUE(bool(result));
  EXPECT_FALSE(result->proven);
  EXPECT_NE(toText(*result).find("the search stopped at its limit"), std::string::npos);
}

TEST_F(ExplainTest, WhatTheFirstSearchHasNotProvenSaysSo) {
  problem.request.ignoreMemory = true; // so that nothing is to spare
  problem.request.minThroughput = SamplesPerSecond(50000);
  EXPECT_TRUE(llvm::cantFail(explain(problem, solveAll, nullptr)).proven);
  Explanation result = llvm::cantFail(explain(problem, solveAll, nullptr, {false}));
  EXPECT_FALSE(result.proven) << "without the floor there is a plan, which tells nothing of it";
  problem.request.maxCostPerHour = DollarsPerHour(0.5); // less than any device
  EXPECT_TRUE(llvm::cantFail(explain(problem, solveAll, nullptr, {false})).proven)
      << "a part of the constraints is proven to conflict";
}

TEST_F(ExplainTest, TheNumberOfSolvesIsLimited) {
  problem.request.minThroughput = SamplesPerSecond(1.9);
  problem.request.maxCostPerHour = DollarsPerHour(4);
  int solves = 0;
  auto solve = [&](const Problem &problem, Effort) {
    ++solves;
    return search(problem, "auto", {});
  };
  ASSERT_TRUE(bool(explain(problem, solve, nullptr, {true, 3})));
  EXPECT_EQ(solves, 3);
}

TEST_F(ExplainTest, AllSolvesShareOneLimitOnTheirWork) {
  problem.request.minThroughput = SamplesPerSecond(1.9);
  problem.request.maxCostPerHour = DollarsPerHour(4);
  int64_t spent = 0;
  auto solve = [&](const Problem &problem, Effort effort) {
    SearchOptions options;
    options.workLimit = effort.mostWork;
    llvm::Expected<SearchOutcome> outcome = search(problem, "auto", options);
    outcome->work = 40; // stated, so that the test does not depend on the search
    spent += outcome->work;
    return outcome;
  };
  ExplainOptions options;
  options.noneIsProven = true;
  options.mostWork = 100;
  Explanation result = llvm::cantFail(explain(problem, solve, nullptr, options));
  EXPECT_EQ(spent, 120);
  EXPECT_FALSE(result.notReached.empty());
}

TEST_F(ExplainTest, TheDeadlineOfTheCommandEndsIt) {
  problem.request.minThroughput = SamplesPerSecond(1.9);
  problem.request.maxCostPerHour = DollarsPerHour(4);
  double now = 0;
  int solves = 0;
  auto solve = [&](const Problem &problem, Effort) {
    ++solves;
    now += 2; // seconds that each search takes
    return search(problem, "auto", {});
  };
  ExplainOptions options;
  options.noneIsProven = true;
  options.deadline = Deadline::after(Seconds(5), [&] { return Seconds(now); });
  Explanation result = llvm::cantFail(explain(problem, solve, nullptr, options));
  EXPECT_EQ(solves, 3);
  EXPECT_TRUE(llvm::is_contained(result.notReached, "more devices"));
  EXPECT_NE(toText(result).find("the limits on time and work left open: "), std::string::npos);
  now = 10;
  auto prove = [](const Problem &) -> llvm::Expected<std::optional<Names>> {
    ADD_FAILURE() << "there is no time left for a proof";
    return std::nullopt;
  };
  llvm::cantFail(explain(problem, solve, prove, options));
  EXPECT_EQ(solves, 3);
}

TEST_F(ExplainTest, TheDeadlineEndsAnExhaustiveSearchWhileItCounts) {
  double now = 0;
  SearchOptions options;
  options.deadline = Deadline::after(Seconds(5), [&] { return Seconds(now++); });
  SearchOutcome outcome = llvm::cantFail(search(problem, "exhaustive", options));
  EXPECT_FALSE(outcome.isProven());
  EXPECT_LT(now, 40) << "the clock is not asked for long after the deadline";
}

TEST_F(ExplainTest, ErrorsOfTheSearchAreHandedOn) {
  costs = ConstantCostModel();
  problem.request.minThroughput = SamplesPerSecond(1);
  llvm::Expected<Explanation> result = explain(problem, solveAll);
  ASSERT_FALSE(bool(result));
  EXPECT_NE(toText(result.takeError()).find("HP1401"), std::string::npos);
  result = explain(problem, solveAll, test::proveConflict);
  ASSERT_FALSE(bool(result));
  EXPECT_NE(toText(result.takeError()).find("HP1401"), std::string::npos);
}

TEST_F(ExplainTest, TheTextNamesTheConflictAndTheWaysOut) {
  Explanation result;
  result.conflict = {"A", "B", "C"};
  result.devices = 8;
  result.proven = true;
  result.relaxations = {
      {"A", "best A", "", "5 samples/s", "3 samples/s", "--min-throughput 3", 3, true, true},
      {"B", "layer 'b'", "", "on fast", "on slow", "", 0, true, false}};
  EXPECT_EQ(toText(result),
            "no plan meets the constraints: A, B and C conflict on the 8 devices of "
            "the cluster\n"
            "  there is a plan with any one of these:\n"
            "    best A: 3 samples/s instead of 5 samples/s (--min-throughput 3)\n"
            "    layer 'b': on slow instead of on fast; a smaller change may do\n");
  result.conflict = {"A"};
  EXPECT_EQ(toText(result).substr(0, 48), "no plan meets the constraints: A cannot be had o");
}
} // namespace
