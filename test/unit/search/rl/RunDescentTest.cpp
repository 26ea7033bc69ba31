// Moves on runs: what they return covers the model, and is close to the best of all covers.
#include "search/rl/RunDescent.h"

#include "search/rl/RunEnvironment.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
using Runs = std::vector<heterplan::Run>;

class Example {
public:
  explicit Example(int seed)
      : random(steady(seed)), problem(llvm::cantFail(random.problem())), evaluator(problem),
        assignments(evaluator), environment(evaluator, assignments),
        table(evaluator, assignments, {0, limit(seed)}) {}

  /// The price of the devices; infinite if some are missing or a run has no number of devices.
  double priceOf(const Runs &runs) const {
    std::vector<int> left = evaluator.space.available;
    double price = 0;
    for (const heterplan::Run &run : runs) {
      int count = table.count(run.begin, run.end, run.type);
      if (count == 0 || (left[size_t(run.type)] -= count) < 0)
        return infinity;
      price += count * problem.cluster.types[run.type].price.value();
    }
    return price;
  }
  /// The least price of all covers.
  double leastPrice(Runs &runs) const {
    int at = runs.empty() ? 0 : runs.back().end;
    if (at == assignments.blocks)
      return int(runs.size()) >= evaluator.space.minStages ? priceOf(runs) : infinity;
    if (int(runs.size()) == evaluator.space.maxStages)
      return infinity;
    double least = infinity;
    for (int type = 0; type < assignments.types; ++type) {
      if (!runs.empty() && runs.back().type == type)
        continue;
      for (int end = at + 1; end <= assignments.blocks; ++end) {
        runs.push_back({at, end, type});
        least = std::min(least, leastPrice(runs));
        runs.pop_back();
      }
    }
    return least;
  }

private:
  static test::RandomProblem steady(int seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = IterationModel::SteadyState;
    random.request.objective = Objective::Cost;
    return random;
  }
  double limit(int seed) const {
    double whole = 0;
    for (int block = 0; block < assignments.blocks; ++block)
      whole += environment.secondsOf(block, 0);
    return whole * (2 + seed % 20);
  }
  test::RandomProblem random;

public:
  Problem problem;
  Evaluator evaluator;
  AssignmentSpace assignments;
  RunEnvironment environment;
  RunTable table;
};
} // namespace

TEST(RunDescent, CoversTheModelWithUnlikeNeighbours) {
  int64_t lookups = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Example example(seed);
    std::mt19937_64 generator(seed);
    RunDescent descent(example.table, example.evaluator);
    Runs runs = descent.improve(example.environment.runsOf(example.assignments.random(generator)));
    int at = 0, before = -1;
    for (const heterplan::Run &run : runs) {
      EXPECT_EQ(run.begin, at) << "seed " << seed;
      EXPECT_GT(run.end, run.begin) << "seed " << seed;
      EXPECT_NE(run.type, before) << "seed " << seed;
      at = run.end;
      before = run.type;
    }
    EXPECT_EQ(at, example.assignments.blocks) << "seed " << seed;
    lookups += descent.lookups();
  }
  EXPECT_GT(lookups, 1000);
}

TEST(RunDescent, FindsTheCheapestCoverOfMostProblems) {
  int compared = 0, cheapest = 0, feasible = 0, others = 0, mended = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Example example(seed);
    Runs none;
    double least = example.leastPrice(none);
    if (least == infinity)
      continue;
    std::mt19937_64 generator(seed);
    Runs drawn = example.environment.runsOf(example.assignments.random(generator));
    RunDescent descent(example.table, example.evaluator);
    double price = example.priceOf(descent.improve(drawn));
    EXPECT_GE(price, least * (1 - 1e-9)) << "seed " << seed;
    const bool isCheapest = price <= least * (1 + 1e-9);
    if (example.priceOf(drawn) > least * (1 + 1e-9)) {
      ++others;
      mended += isCheapest;
    }
    cheapest += isCheapest;
    feasible += price < infinity;
    ++compared;
  }
  RecordProperty("compared", compared);
  RecordProperty("cheapest", cheapest);
  RecordProperty("feasible", feasible);
  EXPECT_GT(compared, 30);
  EXPECT_GE(feasible, 0.9 * compared);
  EXPECT_GE(cheapest, 0.85 * compared);
  EXPECT_GE(others, 20);
  EXPECT_GE(mended, 0.75 * others);
}
