// Laws of search, on random small problems.
#include "search/Search.h"
#include "search/placement/Evaluator.h"
#include "search/verify/Checker.h"
#include "support/RandomProblem.h"
#include "support/TestName.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr int problems = 1000;

SearchOutcome solve(const Problem &problem, const char *strategy) {
  llvm::Expected<SearchOutcome> outcome = search(problem, strategy, {});
  if (!outcome)
    ADD_FAILURE() << toText(outcome.takeError());
  return outcome ? std::move(*outcome) : SearchOutcome();
}

/// For an objective where larger is better, `a` is at least as good as `b`, up to rounding.
bool atLeastAsGood(Objective objective, double a, double b) {
  return objective == Objective::Throughput ? a >= b * (1 - 1e-9) : a <= b * (1 + 1e-9);
}

/// The optimum lies between the objective of `plan` and its bound.
bool bracketed(const Plan &plan, const Plan &optimum) {
  return atLeastAsGood(plan.objective, optimum.objectiveValue, plan.objectiveValue) &&
         atLeastAsGood(plan.objective, plan.lowerBound, optimum.objectiveValue);
}

/// Times that fall here and there as the batch grows, as measured ones do.
class Uneven : public CostModel {
public:
  explicit Uneven(const CostModel &costs) : costs(costs) {}
  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override {
    llvm::Expected<LayerCost> cost = costs.price(layer, device, batch);
    if (!cost)
      return cost;
    cost->forward = cost->forward * (1 + double(batch.value() * 7 % 3) / 3);
    cost->backward = cost->backward * (1 + double(batch.value() * 5 % 4) / 4);
    cost->update = cost->update * (1 + double(batch.value() % 2) / 2);
    return cost;
  }

private:
  const CostModel &costs;
};
} // namespace

TEST(Search, timesMayFallAsTheBatchGrows) {
  int feasible = 0, uneven = 0;
  for (int seed = 0; seed < 300; ++seed) {
    RandomProblem random(seed);
    Uneven costs(random.costs);
    Problem problem =
        llvm::cantFail(Problem::create(random.graph, random.cluster, costs, random.request));
    SearchOutcome oracle = solve(problem, "exhaustive");
    SearchOutcome labels = solve(problem, "label-setting");
    ASSERT_TRUE(!labels.isProven() || oracle.plan.has_value() == labels.plan.has_value());
    if (!oracle.plan || !labels.plan)
      continue;
    ASSERT_TRUE(bracketed(*labels.plan, *oracle.plan)) << "seed " << seed;
    if (labels.isProven()) {
      ASSERT_NEAR(labels.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-9)
          << "seed " << seed;
    }
    auto checks = checkPlan(*labels.plan, problem.graph, problem.cluster, costs);
    ASSERT_TRUE(bool(checks)) << toText(checks.takeError());
    for (const Check &check : *checks)
      ASSERT_TRUE(check.holds) << "seed " << seed << ": " << check.name;
    ++feasible;
    for (const Stage &stage : labels.plan->stages)
      uneven += stage.replicas.front().share != stage.replicas.back().share &&
                stage.replicas.front().devices[0].type == stage.replicas.back().devices[0].type;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_GT(uneven, 10);
}

class EveryIterationModel : public testing::TestWithParam<IterationModel> {};

TEST_P(EveryIterationModel, labelSettingEqualsExhaustive) {
  int feasible = 0, pipelines = 0, mixed = 0, misjudged = 0, sharded = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    SearchOutcome labels = solve(problem, "label-setting");
    if (!labels.isProven()) { // a pipeline takes longer than the formula says
      ++misjudged;
      ASSERT_TRUE(!labels.plan || (oracle.plan && bracketed(*labels.plan, *oracle.plan)))
          << "seed " << seed;
      continue;
    }
    ASSERT_EQ(oracle.plan.has_value(), labels.plan.has_value()) << "seed " << seed;
    if (!oracle.plan)
      continue;
    ASSERT_NEAR(labels.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-9)
        << "seed " << seed;
    ASSERT_TRUE(labels.plan->optimal) << "seed " << seed;
    ++feasible;
    pipelines += labels.plan->stages.size() > 1;
    for (const Stage &stage : labels.plan->stages) {
      sharded += !stage.tables.empty() && stage.replicas.size() > 1;
      for (const Replica &replica : stage.replicas)
        mixed += replica.devices[0].type != stage.replicas[0].devices[0].type;
    }
  }
  // The problems are not trivial.
  EXPECT_GT(feasible, problems / 2);
  EXPECT_GT(pipelines, problems / 20);
  EXPECT_LE(misjudged, problems / 100);
  EXPECT_GT(sharded, problems / 50);
  if (GetParam() == IterationModel::Synchronous) { // else a stage has one type
    EXPECT_GT(mixed, problems / 20);
  }
}

namespace {
/// Tight memory, so that stages fit only when they compute again or divide their state, if at all.
/// Half of the problems ask for a way, or for none; in every fifth sums overlap with passes.
void makeTight(RandomProblem &random, int seed) {
  std::mt19937_64 draw(seed + 77);
  auto below = [&](int limit) { return int(draw() % limit); };
  random.request.optimizer = seed % 3 == 0 ? Optimizer::Momentum : Optimizer::Adam;
  for (Layer &layer : random.graph.layers)
    layer.activationBytes = Bytes(10 + below(300));
  for (DeviceType &type : random.cluster.types)
    type.memory = Bytes(400 + below(3600));
  if (seed % 4 == 1)
    random.request.recompute = static_cast<RecomputePolicy>(below(3));
  if (seed % 4 == 3)
    random.request.shardState = static_cast<StateSharding>(below(stateShardings));
  random.request.overlapsSums = seed % 5 == 2;
  random.request.overlapsTransfers = seed % 3 == 1;
}
} // namespace

TEST(Search, labelSettingEqualsExhaustiveWhereMemoryForcesAnotherMode) {
  int feasible = 0, recomputed = 0, divided = 0, helped = 0, misjudged = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    makeTight(random, seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    SearchOutcome found = solve(problem, "label-setting");
    if (!found.isProven()) { // a pipeline takes longer than the formula says
      ++misjudged;
      ASSERT_TRUE(!found.plan || (oracle.plan && bracketed(*found.plan, *oracle.plan)))
          << "seed " << seed;
    } else {
      ASSERT_EQ(oracle.plan.has_value(), found.plan.has_value()) << "seed " << seed;
    }
    if (found.isProven() && oracle.plan) {
      ASSERT_NEAR(found.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-6)
          << "seed " << seed;
      auto checks = checkPlan(*found.plan, problem.graph, problem.cluster, random.costs);
      ASSERT_TRUE(bool(checks)) << toText(checks.takeError());
      for (const Check &check : *checks)
        ASSERT_TRUE(check.holds) << "seed " << seed << ": " << check.name;
    }
    if (!oracle.plan)
      continue;
    ++feasible;
    for (const Stage &stage : oracle.plan->stages) {
      recomputed += !stage.recompute.empty();
      divided += stage.sharding.state != StateSharding::None;
    }
    random.request.recompute = RecomputePolicy::Never;
    random.request.shardState = StateSharding::None;
    SearchOutcome plain = solve(llvm::cantFail(random.problem()), "exhaustive");
    helped += !plain.plan;
    if (plain.plan && problem.request.recompute == RecomputePolicy::Auto &&
        !problem.request.shardState) {
      ASSERT_TRUE(atLeastAsGood(oracle.plan->objective, oracle.plan->objectiveValue,
                                plain.plan->objectiveValue))
          << "seed " << seed << ": more ways are never worse";
    }
  }
  EXPECT_GT(feasible, problems / 3);
  EXPECT_GT(recomputed, problems / 20);
  EXPECT_GT(divided, problems / 20);
  EXPECT_GT(helped, problems / 50);
  EXPECT_LE(misjudged, problems / 25);
}

/// Execution modes are decided: more of them to choose from never make a plan worse.
TEST(Search, AutoIsNoWorseThanAnyFixedMode) {
  int compared = 0, better = 0;
  for (int seed = 0; seed < 500; ++seed) {
    RandomProblem random(seed);
    makeTight(random, seed);
    random.request.recompute = RecomputePolicy::Auto;
    random.request.shardState = std::nullopt;
    SearchOutcome any = solve(llvm::cantFail(random.problem()), "label-setting");
    if (!any.isProven())
      continue;
    for (RecomputePolicy recompute :
         {RecomputePolicy::Auto, RecomputePolicy::Never, RecomputePolicy::Always})
      for (int sharding = -1; sharding < stateShardings; ++sharding) {
        random.request.recompute = recompute;
        random.request.shardState = std::nullopt;
        if (sharding >= 0)
          random.request.shardState = static_cast<StateSharding>(sharding);
        SearchOutcome fixed = solve(llvm::cantFail(random.problem()), "label-setting");
        if (!fixed.plan)
          continue;
        ASSERT_TRUE(any.plan) << "seed " << seed;
        ASSERT_TRUE(atLeastAsGood(any.plan->objective, any.plan->objectiveValue,
                                  fixed.plan->objectiveValue))
            << "seed " << seed << ", recompute " << int(recompute) << ", shard state " << sharding;
        ++compared;
        better += !atLeastAsGood(any.plan->objective, fixed.plan->objectiveValue,
                                 any.plan->objectiveValue);
      }
  }
  EXPECT_GT(compared, 2000);
  EXPECT_GT(better, 500);
}

/// A search for any plan, which an explanation is made of, that runs out of work.
TEST(Search, runningOutOfWorkProvesNothing) {
  int cutShort = 0, feasible = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    makeTight(random, seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    for (int64_t work : {0, 1, 4, 16, 64, 256}) {
      SearchOptions options;
      options.gap = std::numeric_limits<double>::infinity();
      options.workLimit = work;
      SearchOutcome found = llvm::cantFail(search(problem, "label-setting", options));
      cutShort += found.termination == Termination::Limit && !found.plan;
      ASSERT_TRUE(found.termination != Termination::Infeasible || !oracle.plan)
          << "seed " << seed << ", work " << work;
    }
    feasible += oracle.plan.has_value();
  }
  EXPECT_GT(feasible, problems / 3);
  EXPECT_GT(cutShort, 100);
}

TEST(Search, milpEqualsExhaustiveInSteadyState) {
  int feasible = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = IterationModel::SteadyState;
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive"), found = solve(problem, "milp");
    ASSERT_TRUE(found.isProven()) << "seed " << seed;
    ASSERT_EQ(oracle.plan.has_value(), found.plan.has_value()) << "seed " << seed;
    if (!oracle.plan)
      continue;
    ++feasible;
    ASSERT_TRUE(found.plan->optimal) << "seed " << seed;
    // As accurate as Cbc.
    ASSERT_NEAR(found.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-7)
        << "seed " << seed;
  }
  EXPECT_GT(feasible, problems / 2);
}

namespace {
/// Expects that label-setting finds what the exhaustive search has found, as far as it proves it.
/// Whether it does.
bool expectTheSame(const Problem &problem, const SearchOutcome &oracle, int seed) {
  SearchOutcome found = solve(problem, "label-setting");
  if (!found.isProven()) {
    EXPECT_TRUE(!found.plan || (oracle.plan && bracketed(*found.plan, *oracle.plan)))
        << "seed " << seed;
    return false;
  }
  EXPECT_EQ(oracle.plan.has_value(), found.plan.has_value()) << "seed " << seed;
  if (oracle.plan && found.plan) {
    EXPECT_NEAR(found.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-6)
        << "seed " << seed;
  }
  return true;
}
} // namespace

namespace {
/// Puts the nodes of `random` into zones with a price of traffic. Whether each type is in one zone,
/// as stages have to be.
bool chargeForTraffic(RandomProblem &random, int seed) {
  std::map<std::string, int> groups; // of a type
  for (size_t i = 0; i < random.cluster.nodes.size(); ++i) {
    NodeGroup &nodes = random.cluster.nodes[i];
    for (const auto &[type, count] : nodes.devices)
      ++groups[type];
    nodes.zone = "zone " + std::to_string(i);
    const double price = std::pow(10, 3 + seed % 5) * double((7 * seed + 3 * i) % 4);
    random.cluster.zones.push_back({nodes.zone, random.cluster.network, Dollars(price), {}});
  }
  return llvm::none_of(groups, [](auto &each) { return each.second > 1; });
}
} // namespace

TEST(Search, exactStrategiesAgreeWhereZonesCharge) {
  int charged = 0, proven = 0;
  for (int seed = 0; seed < 500; ++seed) {
    RandomProblem random(seed);
    if (!chargeForTraffic(random, seed) || random.graph.size() < 2)
      continue;
    random.request.objective = seed % 4 ? Objective::Cost : Objective::Throughput;
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    proven += expectTheSame(problem, oracle, seed);
    charged += oracle.plan && oracle.plan->trafficCost > Dollars(0);
  }
  EXPECT_GT(charged, 10);
  EXPECT_GT(proven, 150);
}

/// Traffic counts towards a budget, and costs more per hour in short iterations.
TEST(Search, exactStrategiesAgreeWhereTrafficIsWithinABudget) {
  int charged = 0, limited = 0, proven = 0;
  for (int seed = 0; seed < 500; ++seed) {
    RandomProblem random(seed);
    if (!chargeForTraffic(random, seed) || random.graph.size() < 2)
      continue;
    random.request.objective = Objective::Throughput;
    random.request.maxCostPerHour = {};
    const SearchOutcome fastest = solve(llvm::cantFail(random.problem()), "exhaustive");
    if (!fastest.plan || fastest.plan->trafficCost == Dollars(0))
      continue;
    ++limited;
    random.request.maxCostPerHour = fastest.plan->costPerHour * (0.6 + 0.05 * (seed % 10));
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    proven += expectTheSame(problem, oracle, seed);
    charged += oracle.plan && oracle.plan->trafficCost > Dollars(0);
  }
  EXPECT_GT(limited, 50);
  EXPECT_GT(charged, 25);
  EXPECT_GT(proven, 45); // 31 if labels do not count traffic
}

/// Transfers between zones take up to seconds, as long as stages, so that some best plans lie in
/// one zone and others in several.
TEST(Search, exactStrategiesAgreeWhereZonesAreFarApart) {
  int proven = 0, across = 0, within = 0;
  for (int seed = 0; seed < 600; ++seed) {
    RandomProblem random(seed);
    if (random.graph.size() < 2 || random.cluster.nodes.size() < 2)
      continue;
    test::putNodesInZones(random, Seconds(std::pow(10, seed % 4 - 3)));
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    proven += expectTheSame(problem, oracle, seed);
    std::set<std::string> used;
    for (size_t stage = 0; oracle.plan && stage < oracle.plan->stages.size(); ++stage)
      for (const Replica &replica : oracle.plan->stages[stage].replicas)
        for (const DeviceRef &device : replica.devices)
          used.insert(device.type);
    if (oracle.plan && oracle.plan->stages.size() > 1)
      (used.size() > 1 ? across : within) += 1;
  }
  EXPECT_GT(proven, 150);
  EXPECT_GT(across, 20);
  EXPECT_GT(within, 20);
}

TEST(Search, exactStrategiesAgreeWhereNeighboursFillNodesTogether) {
  int feasible = 0, shared = 0;
  for (int seed = 0; seed < 400; ++seed) {
    RandomProblem random(seed);
    if (random.graph.size() < 3)
      continue;
    makeNodesThatAreFilled(random, 4 + seed % 5);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    expectTheSame(problem, oracle, seed);
    feasible += oracle.plan.has_value();
    for (size_t stage = 1; oracle.plan && stage < oracle.plan->stages.size(); ++stage)
      shared += oracle.plan->stages[stage].replicas[0].devices[0].node ==
                oracle.plan->stages[stage - 1].replicas[0].devices[0].node;
  }
  EXPECT_GT(feasible, 30);
  EXPECT_GT(shared, 10);
}

/// Five layers on three types of two devices: the largest that the exhaustive search ends on.
TEST(SearchProperty, labelSettingEqualsExhaustiveOnAllGroupsOfSixDevices) {
  int feasible = 0;
  for (int seed = 0; feasible < 12; ++seed) {
    RandomProblem random(seed);
    if (random.graph.size() < 5 || random.cluster.types.size() < 3)
      continue;
    for (NodeGroup &group : random.cluster.nodes) {
      group.count = 1;
      group.devices.begin()->second = 2;
    }
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive"), found = solve(problem, "label-setting");
    ASSERT_TRUE(found.isProven()) << "seed " << seed;
    ASSERT_EQ(oracle.plan.has_value(), found.plan.has_value()) << "seed " << seed;
    if (!oracle.plan)
      continue;
    ++feasible;
    ASSERT_NEAR(found.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-9)
        << "seed " << seed;
  }
}

TEST_P(EveryIterationModel, LearningFindsTheOptimumInAlmostAllRuns) {
  int runs = 0, optimal = 0;
  for (int instance = 0; instance < 40; ++instance) {
    RandomProblem random(instance);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive");
    for (int seed = 0; oracle.plan && seed < 4; ++seed) {
      SearchOptions options;
      options.seed = seed;
      options.workLimit = 500'000; // plenty for problems of this size
      options.policies = HETERPLAN_SOURCE_DIR "/profiles/policies";
      const char *strategy = seed % 2 ? "rl-lstm" : "rl-transformer";
      SearchOutcome found = llvm::cantFail(search(problem, strategy, options));
      ASSERT_TRUE(found.plan) << "instance " << instance << ", seed " << seed;
      double ratio = found.plan->objectiveValue / oracle.plan->objectiveValue;
      double excess =
          problem.request.objective == Objective::Throughput ? 1 / ratio - 1 : ratio - 1;
      EXPECT_LE(excess, 0.05) << "instance " << instance << ", seed " << seed;
      ++runs;
      optimal += excess <= 1e-9;
    }
  }
  EXPECT_GE(runs, 80);
  EXPECT_GE(optimal, 0.99 * runs) << "of " << runs;
  RecordProperty("optimal", optimal);
  RecordProperty("runs", runs);
}

/// Too little work for a proof, so that local search and learning run beside each other.
TEST_P(EveryIterationModel, LearningDoesNotDependOnThreads) {
  int found = 0, unproven = 0;
  for (int instance = 0; instance < 15; ++instance) {
    RandomProblem random(instance);
    random.request.iterationModel = GetParam();
    Problem problem = llvm::cantFail(random.problem());
    for (const char *strategy : {"auto", "rl-transformer", "rl-lstm"}) {
      std::optional<SearchOutcome> first;
      for (int threads : {1, 5}) {
        SearchOptions options;
        options.threads = threads;
        options.workLimit = 1000;
        options.policies = HETERPLAN_SOURCE_DIR "/profiles/policies";
        SearchOutcome outcome = llvm::cantFail(search(problem, strategy, options));
        if (!first)
          first = outcome;
        ASSERT_EQ(outcome.termination, first->termination) << strategy << ' ' << instance;
        ASSERT_EQ(outcome.work, first->work) << strategy << ' ' << instance;
        ASSERT_EQ(outcome.plan.has_value(), first->plan.has_value()) << strategy << ' ' << instance;
        if (!outcome.plan)
          continue;
        ASSERT_EQ(outcome.plan->stages, first->plan->stages) << strategy << ' ' << instance;
        ASSERT_EQ(outcome.plan->objectiveValue, first->plan->objectiveValue);
        ASSERT_EQ(outcome.plan->lowerBound, first->plan->lowerBound);
        ++found;
        unproven += !outcome.isProven();
      }
    }
  }
  EXPECT_GT(found, 40);
  EXPECT_GT(unproven, 5);
}

TEST(SearchProperty, parametricEqualsExhaustiveUnderHeterPsWhereItSaysSo) {
  int optimal = 0, feasible = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    random.request.iterationModel = IterationModel::SteadyState;
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome oracle = solve(problem, "exhaustive"), found = solve(problem, "parametric");
    if (found.isProven()) {
      ASSERT_EQ(oracle.plan.has_value(), found.plan.has_value()) << "seed " << seed;
    }
    if (!oracle.plan)
      continue;
    ++feasible;
    if (!found.plan)
      continue;
    ASSERT_TRUE(atLeastAsGood(problem.request.objective, found.plan->lowerBound,
                              oracle.plan->objectiveValue))
        << "seed " << seed << ": the bound is beaten";
    if (!found.plan->optimal)
      continue;
    ++optimal;
    ASSERT_NEAR(found.plan->objectiveValue / oracle.plan->objectiveValue, 1, 1e-9)
        << "seed " << seed;
  }
  // Where devices are scarce the multipliers may leave a gap.
  EXPECT_GT(optimal, feasible / 2);
  RecordProperty("optimal", optimal);
  RecordProperty("feasible", feasible);
}

INSTANTIATE_TEST_SUITE_P(SearchProperty, EveryIterationModel,
                         testing::Values(IterationModel::Synchronous, IterationModel::SteadyState),
                         [](const auto &info) { return test::testName(nameOf(info.param)); });

TEST(SearchProperty, noPlanBeatsItsBoundAndGreedyIsNeverBetter) {
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome labels = solve(problem, "label-setting");
    SearchOutcome greedy = solve(problem, "greedy");
    if (!greedy.plan)
      continue;
    ASSERT_TRUE(labels.plan);
    EXPECT_TRUE(atLeastAsGood(problem.request.objective, labels.plan->objectiveValue,
                              greedy.plan->objectiveValue))
        << "seed " << seed;
    EXPECT_TRUE(atLeastAsGood(problem.request.objective, greedy.plan->lowerBound,
                              labels.plan->objectiveValue))
        << "seed " << seed << ": greedy's bound is beaten";
  }
}

TEST_P(EveryIterationModel, cutShortTheBoundsStillHold) {
  SearchOptions little, stopped;
  little.workLimit = 40;
  std::atomic<bool> stop = true;
  stopped.stop = &stop;
  for (const char *strategy : {"label-setting", "milp"})
    for (const SearchOptions *options : {&little, &stopped})
      for (int seed = 0; seed < problems / 2; ++seed) {
        RandomProblem random(seed);
        random.request.iterationModel = GetParam();
        Problem problem = llvm::cantFail(random.problem());
        SearchOutcome best = solve(problem, "label-setting");
        SearchOutcome cut = llvm::cantFail(search(problem, strategy, *options));
        if (!cut.plan)
          continue;
        EXPECT_TRUE(atLeastAsGood(problem.request.objective, cut.plan->lowerBound,
                                  best.plan->objectiveValue))
            << strategy << ", seed " << seed;
        EXPECT_EQ(cut.plan->optimal, cut.plan->gap == 0) << strategy << ", seed " << seed;
      }
}

TEST(SearchProperty, aDeviceMoreNeverMakesTheOptimumWorse) {
  for (int seed = 0; seed < problems / 4; ++seed) {
    RandomProblem random(seed);
    Problem before = llvm::cantFail(random.problem());
    NodeGroup extra = random.cluster.nodes.back();
    extra.name = "extra";
    extra.count = 1;
    random.cluster.nodes.push_back(extra);
    // The only node of a type shares a link that is faster than the network; a second one ends
    // that, so compare only where the type was already spread.
    if (before.cluster.nodes.back().count < 2)
      continue;
    SearchOutcome small = solve(before, "label-setting");
    SearchOutcome large = solve(llvm::cantFail(random.problem()), "label-setting");
    if (!small.plan)
      continue;
    ASSERT_TRUE(large.plan) << "seed " << seed;
    EXPECT_TRUE(atLeastAsGood(before.request.objective, large.plan->objectiveValue,
                              small.plan->objectiveValue))
        << "seed " << seed;
  }
}

TEST(SearchProperty, sameSeedSamePlan) {
  for (int seed = 0; seed < 100; ++seed) {
    RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOutcome first = solve(problem, "auto"), second = solve(problem, "auto");
    EXPECT_EQ(first.plan, second.plan) << "seed " << seed;
  }
}
