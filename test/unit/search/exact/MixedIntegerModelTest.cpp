#include "search/exact/MixedIntegerModel.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace heterplan;

namespace {
constexpr int columns = 12, rows = 3;

/// Covering problems: least cost with which each row has enough.
struct Covering {
  explicit Covering(int seed) : program(columns, columns) {
    std::mt19937_64 random(seed);
    auto whole = [&](int low, int high) { return low + int(random() % uint64_t(high - low + 1)); };
    for (double &cost : program.objective)
      cost = whole(5, 50);
    for (std::vector<double> &row : weights) {
      MixedIntegerModel::Row entries;
      for (int column = 0; column < columns; ++column)
        entries[column] = row.emplace_back(whole(1, 30));
      needs.push_back(whole(30, 60));
      program.add(entries, needs.back(), 1e9);
    }
  }

  double optimum() const {
    double best = std::numeric_limits<double>::infinity();
    for (int chosen = 0; chosen < 1 << columns; ++chosen) {
      double cost = 0, sums[rows] = {};
      for (int column = 0; column < columns; ++column)
        if (chosen >> column & 1) {
          cost += program.objective[column];
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

  MixedIntegerModel program;
  std::vector<double> weights[rows];
  std::vector<double> needs;
};
} // namespace

TEST(MixedIntegerModel, findsTheOptimum) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    MixedIntegerModel::Result result = covering.program.minimise({});
    ASSERT_TRUE(result.optimal);
    EXPECT_NEAR(result.bound, covering.optimum(), 1e-6) << "seed " << seed;
    ASSERT_EQ(result.solution.size(), size_t(columns));
  }
}

TEST(MixedIntegerModel, stoppedItsBoundStillHolds) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    double optimum = covering.optimum();
    MixedIntegerModel::Limits nodes, clock, asked;
    nodes.nodes = 1;
    clock.seconds = 0;
    asked.interrupted = [] { return true; };
    for (const MixedIntegerModel::Limits &limits : {nodes, clock, asked}) {
      MixedIntegerModel::Result result = covering.program.minimise(limits);
      EXPECT_FALSE(result.infeasible) << "seed " << seed;
      EXPECT_LE(result.bound, optimum + 1e-6) << "seed " << seed;
    }
  }
}

TEST(MixedIntegerModel, aSolutionThatIsNoBetterThanTheCutoffIsOfNoInterest) {
  for (int seed = 0; seed < 20; ++seed) {
    Covering covering(seed);
    double optimum = covering.optimum();
    MixedIntegerModel::Limits limits;
    limits.cutoff = optimum - 0.5;
    EXPECT_TRUE(covering.program.minimise(limits).infeasible) << "seed " << seed;
    limits.cutoff = optimum + 0.5;
    EXPECT_NEAR(covering.program.minimise(limits).bound, optimum, 1e-6) << "seed " << seed;
  }
}

TEST(MixedIntegerModel, saysThatThereIsNoSolution) {
  MixedIntegerModel program(2, 2);
  program.add({{0, 1}, {1, 1}}, 3, 4);
  MixedIntegerModel::Result result = program.minimise({});
  EXPECT_TRUE(result.infeasible);
  EXPECT_TRUE(std::isinf(result.bound));
  EXPECT_TRUE(result.solution.empty());
}
