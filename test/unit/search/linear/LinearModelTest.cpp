#include "search/linear/LinearModel.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace heterplan;

namespace {
constexpr int columns = 12, rows = 3;

/// Covering problems: least cost with which each row has enough.
struct Covering {
  explicit Covering(int seed) {
    std::mt19937_64 random(seed);
    auto whole = [&](int low, int high) { return low + int(random() % uint64_t(high - low + 1)); };
    for (double &cost : costs) {
      cost = whole(5, 50);
      program.column(0, 1, cost, /*whole=*/true);
    }
    for (std::vector<double> &row : weights) {
      std::map<int, double> entries;
      for (int column = 0; column < columns; ++column)
        entries[column] = row.emplace_back(whole(1, 30));
      needs.push_back(whole(30, 60));
      program.row(entries, needs.back(), LinearModel::infinity);
    }
  }

  double optimum() const {
    double best = std::numeric_limits<double>::infinity();
    for (int chosen = 0; chosen < 1 << columns; ++chosen) {
      double cost = 0, sums[rows] = {};
      for (int column = 0; column < columns; ++column)
        if (chosen >> column & 1) {
          cost += costs[column];
          for (int row = 0; row < rows; ++row)
            sums[row] += weights[row][column];
        }
      bool enough = true;
      for (int row = 0; row < rows; ++row)
        enough &= sums[row] >= needs[row];
      best = enough ? std::min(best, cost) : best;
    }
    return best;
  }

  LinearModel program;
  double costs[columns];
  std::vector<double> weights[rows];
  std::vector<double> needs;
};
} // namespace

TEST(LinearModel, findsTheOptimum) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    LinearModel::Solution result = covering.program.minimised({});
    ASSERT_TRUE(result.optimal);
    EXPECT_NEAR(result.bound, covering.optimum(), 1e-6) << "seed " << seed;
    ASSERT_EQ(result.values.size(), size_t(columns));
  }
}

TEST(LinearModel, stoppedItsBoundStillHolds) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    double optimum = covering.optimum();
    LinearModel::Limits nodes, clock, asked;
    nodes.nodes = 1;
    clock.seconds = 0;
    asked.interrupted = [] { return true; };
    for (const LinearModel::Limits &limits : {nodes, clock, asked}) {
      LinearModel::Solution result = covering.program.minimised(limits);
      EXPECT_FALSE(result.infeasible) << "seed " << seed;
      EXPECT_LE(result.bound, optimum + 1e-6) << "seed " << seed;
    }
  }
}

TEST(LinearModel, aSolutionThatIsNoBetterThanTheCutoffIsOfNoInterest) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    double optimum = covering.optimum();
    LinearModel::Limits limits;
    limits.cutoff = optimum - 0.5;
    EXPECT_TRUE(covering.program.minimised(limits).infeasible) << "seed " << seed;
    limits.cutoff = optimum + 0.5;
    EXPECT_NEAR(covering.program.minimised(limits).bound, optimum, 1e-6) << "seed " << seed;
  }
}

TEST(LinearModel, saysThatThereIsNoSolution) {
  LinearModel program;
  program.column(0, 1, 0, /*whole=*/true);
  program.column(0, 1, 0, /*whole=*/true);
  program.row(std::map<int, double>{{0, 1}, {1, 1}}, 3, 4);
  LinearModel::Solution result = program.minimised({});
  EXPECT_TRUE(result.infeasible);
  EXPECT_TRUE(std::isinf(result.bound));
  EXPECT_TRUE(result.values.empty());
}

TEST(LinearModel, itsRelaxationLooksAtNoWholeNumbers) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    LinearModel::Solution result = covering.program.relaxed();
    ASSERT_TRUE(result.optimal);
    EXPECT_LE(result.objective, covering.optimum() + 1e-9) << "seed " << seed;
    double cost = 0;
    for (int column = 0; column < columns; ++column)
      cost += covering.costs[column] * result.values[column];
    EXPECT_NEAR(cost, result.objective, 1e-6);
  }
}
