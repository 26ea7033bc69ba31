// Limits on time, money, memory and devices: exact searches find what a brute force over all
// placements finds that knows no limits and sorts out what breaks them.
#include "search/Search.h"
#include "search/placement/Evaluator.h"
#include "search/verify/Checker.h"
#include "support/RandomLimits.h"
#include "support/TestName.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr int problems = 300;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The least objective of all placements that keep the limits of `limited`; infinite: none does.
class BruteForce {
public:
  explicit BruteForce(const RandomProblem &limited)
      : limits(limited.request), free(limited), problem(withoutLimits(free)), evaluator(problem) {
    for (int m : evaluator.space.microBatches) {
      current.microBatches = m;
      extend(0);
    }
  }
  double least = infinity;

private:
  static Problem withoutLimits(RandomProblem &random) {
    Request &request = random.request;
    if (request.maxMemoryFraction > 0)
      for (DeviceType &type : random.cluster.types)
        type.memory = type.memory * request.maxMemoryFraction;
    request.maxMemoryFraction = 0;
    request.maxIteration = Seconds(0);
    request.maxCostPerIteration = request.maxCostPerMillionSamples = Dollars(0);
    request.deviceLimits.clear();
    return llvm::cantFail(random.problem());
  }

  bool keepsLimits(const Evaluation &evaluation) const {
    double hours = evaluation.iteration.value() / 3600, paid = evaluation.price.value() * hours;
    double samples = double(limits.globalBatch.value());
    auto within = [](double value, double most) { return most == 0 || value <= most * (1 + 1e-9); };
    for (const DeviceLimit &limit : limits.deviceLimits) {
      int used = 0;
      for (const PlacedStage &stage : current.stages)
        for (auto [type, count] : stage.group.counts)
          used += problem.cluster.types[type].name == limit.type ? count : 0;
      if (used > limit.most)
        return false;
    }
    return within(evaluation.iteration.value(), limits.maxIteration.value()) &&
           within(paid, limits.maxCostPerIteration.value()) &&
           within(paid / samples * 1e6, limits.maxCostPerMillionSamples.value());
  }

  bool devicesSuffice() const {
    std::vector<int> used(problem.cluster.types.size());
    for (const PlacedStage &stage : current.stages)
      for (auto [type, count] : stage.group.counts)
        if ((used[type] += count) > problem.cluster.deviceCount(type))
          return false;
    return true;
  }

  void extend(size_t from) {
    const std::vector<int> &positions = evaluator.space.positions;
    if (from + 1 == positions.size()) {
      std::optional<Evaluation> evaluation = evaluator.evaluate(current);
      if (evaluation && keepsLimits(*evaluation))
        least = std::min(least, evaluation->objective);
      return;
    }
    for (size_t to = from + 1; to < positions.size(); ++to)
      for (const DeviceGroup &group : groups()) {
        current.stages.push_back({positions[from], positions[to], group});
        if (devicesSuffice())
          extend(to);
        current.stages.pop_back();
      }
  }

  /// All counts of one type, and the groups of the space: mixed ones, and ways to lie in nodes.
  const std::vector<DeviceGroup> &groups() {
    if (!all.empty())
      return all;
    for (int type = 0; type < int(problem.cluster.types.size()); ++type)
      for (int count = 1; count <= problem.cluster.deviceCount(type); ++count)
        all.push_back({{{type, count}}});
    for (const GroupOption &option : evaluator.space.options)
      all.push_back(option.group);
    return all;
  }

  const Request limits;
  RandomProblem free; // outlives `problem`
  const Problem problem;
  Evaluator evaluator;
  Placement current;
  std::vector<DeviceGroup> all;
};

double objectiveOf(const Plan &plan) {
  return plan.objective == Objective::Throughput ? plan.iteration.value()
                                                 : plan.costPerMillionSamples.value();
}

class Limits : public testing::TestWithParam<IterationModel> {};

TEST_P(Limits, ExactSearchesFindWhatABruteForceFinds) {
  int limited = 0, infeasible = 0, worse = 0, unproven = 0, answers = 0;
  for (int seed = 0; seed < problems; ++seed) {
    RandomProblem random(seed);
    if (random.graph.size() > 4)
      continue;
    random.request.iterationModel = GetParam();
    SearchOutcome free = llvm::cantFail(search(llvm::cantFail(random.problem()), "exhaustive", {}));
    if (!free.plan)
      continue;
    test::addLimits(random, *free.plan, uint64_t(seed));
    Problem problem = llvm::cantFail(random.problem());
    double least = BruteForce(random).least;
    ++limited;
    infeasible += !std::isfinite(least);
    worse += std::isfinite(least) && least > objectiveOf(*free.plan) * (1 + 1e-9);
    for (const char *strategy : {"exhaustive", "label-setting", "auto"}) {
      SearchOutcome found = llvm::cantFail(search(problem, strategy, {}));
      ++answers;
      unproven += !found.isProven();
      if (found.isProven()) {
        ASSERT_EQ(found.plan.has_value(), std::isfinite(least)) << strategy << ", seed " << seed;
      }
      if (!found.plan)
        continue;
      double bound = found.plan->lowerBound;
      if (problem.request.objective == Objective::Throughput)
        bound = double(problem.request.globalBatch.value()) / bound;
      ASSERT_LE(bound, least * (1 + 1e-7)) << strategy << ", seed " << seed;
      ASSERT_GE(objectiveOf(*found.plan), least * (1 - 1e-9)) << strategy << ", seed " << seed;
      if (found.isProven()) {
        ASSERT_NEAR(objectiveOf(*found.plan) / least, 1, 1e-6) << strategy << ", seed " << seed;
      }
      auto checks = checkPlan(*found.plan, problem.graph, problem.cluster, random.costs);
      ASSERT_TRUE(bool(checks)) << toText(checks.takeError());
      for (const Check &check : *checks)
        ASSERT_TRUE(check.holds) << strategy << ", seed " << seed << ": " << check.name;
    }
  }
  EXPECT_GT(limited, problems / 3);
  EXPECT_GT(infeasible, limited / 20);
  EXPECT_GT(worse, limited / 20);
  EXPECT_LT(unproven, answers / 5);
  RecordProperty("limited", limited);
  RecordProperty("infeasible", infeasible);
  RecordProperty("worse", worse);
  RecordProperty("unproven", unproven);
}

INSTANTIATE_TEST_SUITE_P(Property, Limits,
                         testing::Values(IterationModel::Synchronous, IterationModel::SteadyState),
                         [](const auto &info) { return test::testName(nameOf(info.param)); });
} // namespace
