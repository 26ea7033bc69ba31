// Subgradient ascent on a bound whose optimum is known by hand.
#include "search/exact/SubgradientAscent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace heterplan;

namespace {
/// Three paths: what each costs, and its use of one resource, of which there is 1.
struct Path {
  double cost, use;
};
constexpr Path paths[] = {{1, 3}, {3, 1.5}, {6, 0.5}};
/// The second and the third path cost the same at a multiplier of 3: 3 + 0.5 · 3.
constexpr double optimum = 4.5;

/// The best bound of so many steps from `start`.
double ascended(double start, double goal, int steps) {
  const Tuning tuning;
  SubgradientAscent ascent({start}, tuning);
  for (int step = 0; step < steps; ++step) {
    const double multiplier = ascent.multipliers[0];
    double least = std::numeric_limits<double>::infinity(), use = 0;
    for (const Path &path : paths)
      if (double paid = path.cost + multiplier * path.use; paid < least) {
        least = paid;
        use = path.use;
      }
    const bool isBest = least - multiplier > ascent.best();
    EXPECT_EQ(ascent.take(least - multiplier), isBest);
    EXPECT_GE(multiplier, 0);
    if (!ascent.step({use - 1}, goal))
      break;
  }
  return ascent.best();
}
} // namespace

TEST(SubgradientAscent, findsTheBestMultipliers) {
  for (double start : {0.0, 1.0, 3.0, 6.0})
    for (double goal : {optimum, 1.1 * optimum, std::numeric_limits<double>::infinity()}) {
      const double best = ascended(start, goal, 60);
      EXPECT_LE(best, optimum + 1e-12);
      EXPECT_GE(best, 0.98 * optimum) << "from " << start << " to " << goal;
    }
}

TEST(SubgradientAscent, endsWhereNoMultiplierCanChange) {
  const Tuning tuning;
  SubgradientAscent ascent({0, 0}, tuning);
  ascent.take(1);
  EXPECT_FALSE(ascent.step({-0.5, 0}, 2)); // both are 0, and neither may grow
  EXPECT_TRUE(ascent.step({-0.5, 0.5}, 2));
  EXPECT_EQ(ascent.multipliers[0], 0);
  EXPECT_GT(ascent.multipliers[1], 0);
}
