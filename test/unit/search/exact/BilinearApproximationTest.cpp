#include "search/exact/BilinearApproximation.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace heterplan;
using Line = BilinearApproximation::Line;
using Corner = BilinearApproximation::Corner;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<Corner> randomPoints(std::mt19937_64 &random) {
  auto real = [&](double low, double high) {
    return low + (high - low) * double(random() >> 11) * 0x1p-53;
  };
  std::vector<Corner> points;
  double curve = real(0.3, 1.5); // about how convex what they lie along is
  for (int i = 0; i < 40; ++i) {
    double x = real(1, 9);
    points.push_back({x, 1 + 8 * std::pow(1 / x, curve) * real(1, 1.5)});
  }
  return points;
}

double leastProductOf(const std::vector<Corner> &points) {
  double least = infinity;
  for (const Corner &point : points)
    least = std::min(least, point.product());
  return least;
}
} // namespace

TEST(BilinearApproximation, startsWithTheCornerOfTheLeastCoordinates) {
  BilinearApproximation envelope(2, 3);
  EXPECT_DOUBLE_EQ(envelope.leastCorner().product(), 6);
  envelope.add({1, 0, 4});
  EXPECT_DOUBLE_EQ(envelope.leastCorner().product(), 12);
}

TEST(BilinearApproximation, chordPassesThroughWhereTheEdgesReachTheProduct) {
  BilinearApproximation envelope(1, 1);
  Line line = envelope.chord(envelope.leastCorner(), 4); // through (1, 4) and (4, 1)
  EXPECT_DOUBLE_EQ(line.x, line.y);
  EXPECT_DOUBLE_EQ(line.value, 5 * line.x);
  envelope.add({1, 1, 4}); // corners (1, 3) and (3, 1), where it is 3
  Corner corner = envelope.leastCorner();
  line = envelope.chord(corner, 3.5);
  double far = corner.x == 1 ? 1 : 3.5, near = 2 - std::sqrt(0.5);
  Corner onAxis{far, 3.5 / far}, onLine{corner.x == 1 ? near : 4 - near, 0};
  EXPECT_NEAR(line.x * onAxis.x + line.y * onAxis.y, line.value, 1e-12);
  EXPECT_NEAR(line.x * onLine.x + line.y * (4 - onLine.x), line.value, 1e-12);
}

TEST(BilinearApproximation, withoutAProductTheChordHasNoValue) {
  BilinearApproximation envelope(1, 2);
  Line line = envelope.chord(envelope.leastCorner(), infinity);
  EXPECT_TRUE(std::isinf(line.value));
  EXPECT_GT(line.x, 0);
  EXPECT_GT(line.y, 0);
}

/// Told the least weighted sum of a set again and again, it ends at the least product, from below.
TEST(BilinearApproximation, itsLeastCornerRisesToTheLeastProduct) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    std::vector<Corner> points = randomPoints(random);
    const double least = leastProductOf(points);
    BilinearApproximation envelope(1, 1);
    double best = run % 2 ? infinity : points.front().product();
    int lines = 0;
    for (; lines < 60; ++lines) {
      Corner corner = envelope.leastCorner();
      ASSERT_LE(corner.product(), least * (1 + 1e-9)) << "run " << run;
      if (corner.product() >= best * (1 - 1e-9))
        break;
      Line line = envelope.chord(corner, best);
      for (const Corner &point : points) {
        double sum = line.x * point.x + line.y * point.y;
        if (sum < line.value) {
          line.value = sum;
          best = std::min(best, point.product());
        }
      }
      envelope.add(line);
    }
    EXPECT_LT(lines, 60) << "run " << run;
    EXPECT_NEAR(best / least, 1, 1e-9) << "run " << run;
  }
}
