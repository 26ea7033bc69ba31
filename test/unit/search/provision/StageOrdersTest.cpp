// Orders of groups: what they return are pipelines of the space, and mostly the best of all orders
// and cuts, which a test lists.
#include "search/provision/StageOrders.h"

#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>

using namespace heterplan;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class Example {
public:
  explicit Example(uint64_t seed)
      : random(synchronous(seed)), problem(llvm::cantFail(random.problem())), evaluator(problem),
        microBatches(evaluator.space.microBatches[seed % evaluator.space.microBatches.size()]) {
    for (size_t type = 0; type < problem.cluster.types.size(); ++type)
      if (int all = evaluator.space.available[type]) {
        groups.push_back({{{int(type), (all + 1) / 2}}});
        if (all > 1)
          groups.push_back({{{int(type), all / 2}}});
      }
    groups.resize(std::min(groups.size(), StageOrders::mostGroups));
  }

  double objectiveOf(const Placement &placement) {
    std::optional<Evaluation> evaluation = evaluator.measure(placement);
    return evaluation ? evaluation->objective : infinity;
  }

  /// The least objective of all orders of some of the groups with all cuts.
  double leastObjective(Placement &placement, size_t used = 0) {
    const std::vector<int> &at = evaluator.space.positions;
    const int begin = placement.stages.empty() ? 0 : placement.stages.back().end;
    if (begin == at.back())
      return objectiveOf(placement);
    double least = infinity;
    for (size_t group = 0; group < groups.size(); ++group) {
      if (used >> group & 1)
        continue;
      for (int end : at) {
        if (end <= begin)
          continue;
        placement.stages.push_back({begin, end, groups[group]});
        least = std::min(least, leastObjective(placement, used | size_t(1) << group));
        placement.stages.pop_back();
      }
    }
    return least;
  }

private:
  static test::RandomProblem synchronous(uint64_t seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = IterationModel::Synchronous;
    return random;
  }
  test::RandomProblem random;

public:
  Problem problem;
  Evaluator evaluator;
  const int microBatches;
  std::vector<DeviceGroup> groups;
};
} // namespace

TEST(StageOrders, ReturnsTheBestOrderAndCutsOfMostProblems) {
  int compared = 0, best = 0, pipelines = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Example example(seed);
    Placement none{{}, example.microBatches};
    const double least = example.leastObjective(none);
    StageOrders orders(example.evaluator);
    double found = infinity;
    for (const Placement &placement :
         orders.best(example.groups, example.microBatches, 4, infinity)) {
      EXPECT_EQ(placement.microBatches, example.microBatches) << "seed " << seed;
      found = std::min(found, example.objectiveOf(placement));
      pipelines += placement.stages.size() > 1;
    }
    EXPECT_GE(found, least * (1 - 1e-9)) << "seed " << seed;
    if (least == infinity)
      continue;
    ++compared;
    best += found <= least * (1 + 1e-9);
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(pipelines, 100);
  EXPECT_GE(best * 100, compared * 95);
}

TEST(StageOrders, CoversTheModelWithEachGroupAtMostOnce) {
  int stages = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Example example(seed);
    StageOrders orders(example.evaluator);
    for (const Placement &placement :
         orders.best(example.groups, example.microBatches, 8, infinity)) {
      std::vector<DeviceGroup> left = example.groups;
      int at = 0;
      for (const PlacedStage &stage : placement.stages) {
        EXPECT_EQ(stage.begin, at) << "seed " << seed;
        EXPECT_GT(stage.end, stage.begin) << "seed " << seed;
        auto group = std::find(left.begin(), left.end(), stage.group);
        ASSERT_NE(group, left.end()) << "seed " << seed;
        left.erase(group);
        at = stage.end;
        ++stages;
      }
      EXPECT_EQ(at, example.problem.graph.size()) << "seed " << seed;
    }
  }
  EXPECT_GT(stages, 500);
}

TEST(StageOrders, LeavesOutWhatTheLimitExcludes) {
  int excluded = 0, kept = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Example example(seed);
    StageOrders orders(example.evaluator);
    std::vector<Placement> all = orders.best(example.groups, example.microBatches, 4, infinity);
    if (all.empty())
      continue;
    const double first = example.objectiveOf(all.front());
    if (first == infinity)
      continue;
    EXPECT_TRUE(orders.best(example.groups, example.microBatches, 4, first * 0.5).empty())
        << "seed " << seed;
    EXPECT_GT(orders.work(), 0);
    // The formula is that of the evaluator for two stages.
    const double limit = first * 1.2;
    for (const Placement &placement :
         orders.best(example.groups, example.microBatches, 64, limit)) {
      const double objective = example.objectiveOf(placement);
      if (placement.stages.size() > 2 || objective == infinity)
        continue;
      EXPECT_LT(objective, limit * (1 + 1e-9)) << "seed " << seed;
      ++kept;
    }
    ++excluded;
  }
  EXPECT_GT(excluded, 50);
  EXPECT_GT(kept, 100);
}
