// Exact search where states of the devices are rounded, on random small problems: nothing better is
// missed.
#include "search/Search.h"
#include "search/exact/StateSearch.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
constexpr int problems = 600;

/// Deeper than most random problems, with devices enough for several stages, and memory that forces
/// some of them to compute again.
RandomProblem randomProblem(int seed) {
  RandomProblem random(seed);
  random.request.objective = Objective::Throughput;
  random.request.maxCostPerHour = DollarsPerHour(0);
  std::mt19937_64 generator(seed * 7 + 3);
  auto below = [&](int most) { return int(generator() % uint64_t(most)); };
  for (NodeGroup &nodes : random.cluster.nodes)
    nodes.count = 2 + below(3);
  random.request.recompute = below(3) == 0 ? RecomputePolicy::Never : RecomputePolicy::Auto;
  if (below(2) == 0)
    random.request.shardState = StateSharding::None;
  return random;
}

SearchOutcome solve(const Problem &problem, const SearchOptions &options) {
  return llvm::cantFail(search(problem, "label-setting", options));
}

/// What StateSearch says of all placements, and the best one it finds, where any that takes less
/// than `limit` seconds is of interest.
struct Settled {
  double left = std::numeric_limits<double>::infinity();
  Incumbent best;
};
Settled settle(Evaluator &evaluator, double limit, size_t states) {
  Settled result;
  result.best.time = result.best.objective = limit;
  PathTable paths(evaluator);
  const SearchOptions options;
  StateSearch search(evaluator, paths, result.best, SearchBudget(options), states, 2048);
  for (int microBatches : evaluator.space.microBatches) {
    StageTable table(evaluator, microBatches);
    Lagrangian::Memory memory;
    Bounds bounds(evaluator, table, /*wholeModelGroups=*/false, memory);
    bounds.tighten(limit, limit);
    if (auto range = bounds.takeAll(limit, limit))
      result.left = std::min(result.left, search.settle(table, *range));
  }
  result.left = std::min(result.left, search.leastMisjudged());
  return result;
}
} // namespace

/// Whatever is better than a bad plan is found, or within what is left.
TEST(RoundedStates, nothingBetterIsMissed) {
  int feasible = 0, found = 0, left = 0, deep = 0;
  for (int seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = randomProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    Evaluator evaluator(problem);
    if (!best.plan || !best.isProven() || best.plan->stages.size() < 2 ||
        !StateSearch::applies(evaluator, 0))
      continue;
    const double least = best.plan->iteration.value();
    for (size_t states : {10, 30, 100, 1'000'000}) {
      const Settled settled = settle(evaluator, least * 1.3, states);
      ++feasible;
      EXPECT_LE(std::min(settled.left, settled.best.objective), least * (1 + 1e-9));
      found += settled.best.objective <= least * (1 + 1e-9);
      left += settled.left < least * (1 - 1e-9);
      deep += best.plan->stages.size() > 2;
    }
  }
  EXPECT_GT(feasible, problems / 2);
  EXPECT_GT(found, feasible / 4);
  EXPECT_GT(left, feasible / 20);
  EXPECT_GT(deep, feasible / 10);
}

TEST(RoundedStates, boundsHoldAndPlansArePlans) {
  int feasible = 0, tighter = 0, proven = 0;
  for (int seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProblem random = randomProblem(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOutcome best = solve(problem, {});
    for (size_t states : {4, 20, 60}) {
      SearchOptions few; // after some labels
      few.workLimit = 20;
      few.deviceStates = 0;
      const SearchOutcome without = solve(problem, few);
      few.deviceStates = states;
      const SearchOutcome found = solve(problem, few);
      if (!found.plan)
        continue;
      ASSERT_TRUE(best.plan);
      ++feasible;
      const double throughput = best.plan->objectiveValue;
      EXPECT_LE(found.plan->objectiveValue, throughput * (1 + 1e-9));
      EXPECT_GE(found.plan->lowerBound, throughput * (1 - 1e-9)) << states << " states";
      tighter += without.plan && found.plan->gap < without.plan->gap - 1e-9;
      proven += found.isProven();
    }
  }
  EXPECT_GT(feasible, problems);
  EXPECT_GT(tighter, problems / 50);
  EXPECT_GT(proven, problems / 20);
}
