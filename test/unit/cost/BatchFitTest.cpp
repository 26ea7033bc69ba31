#include "cost/BatchFit.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace heterplan;

namespace {
BatchFit fitOf(std::initializer_list<std::pair<int64_t, double>> points) {
  BatchFit::Points measured;
  for (auto [batch, time] : points)
    measured.emplace_back(Samples(batch), Seconds(time));
  return BatchFit(measured);
}

double at(const BatchFit &fit, int64_t batch) { return fit.at(Samples(batch)).value(); }

TEST(BatchFit, BetweenPointsIsLinear) {
  BatchFit fit = fitOf({{4, 10}, {8, 20}, {16, 50}});
  EXPECT_DOUBLE_EQ(at(fit, 6), 15);
  EXPECT_DOUBLE_EQ(at(fit, 10), 27.5);
  EXPECT_DOUBLE_EQ(at(fit, 16), 50);
}

TEST(BatchFit, AFlatStartIsTheFloorAndTheRestIsTheLine) {
  // max(10, b + 4): the form of LB-BSP, found again from four of its points.
  BatchFit fit = fitOf({{4, 10}, {6, 10}, {16, 20}, {32, 36}});
  EXPECT_DOUBLE_EQ(at(fit, 1), 10);
  EXPECT_NEAR(at(fit, 64), 68, 1e-9);
  EXPECT_NEAR(at(fit, 1 << 20), (1 << 20) + 4, 1e-6);
}

TEST(BatchFit, WithoutAFloorTheLineGoesOnBothWays) {
  BatchFit fit = fitOf({{4, 3}, {8, 5}, {16, 9}}); // b/2 + 1
  EXPECT_NEAR(at(fit, 1), 1.5, 1e-12);
  EXPECT_NEAR(at(fit, 32), 17, 1e-12);
}

TEST(BatchFit, NothingIsFasterThanProportionalNorSlowerThanTheSmallest) {
  BatchFit steep = fitOf({{4, 10}, {8, 40}}); // the line would be below 0 at 1
  EXPECT_DOUBLE_EQ(at(steep, 1), 2.5);
  BatchFit noisy = fitOf({{4, 10}, {8, 16}, {16, 20}, {32, 60}});
  EXPECT_LE(at(noisy, 3), 10);
}

TEST(BatchFit, OnePointIsProportional) {
  BatchFit fit = fitOf({{4, 10}});
  EXPECT_DOUBLE_EQ(at(fit, 1), 2.5);
  EXPECT_DOUBLE_EQ(at(fit, 12), 30);
}

TEST(BatchFit, AnOutlierAmongManyLeavesTheRestWhereTheyAre) {
  BatchFit fit = fitOf({{1, 1}, {2, 2}, {4, 400}, {8, 8}, {16, 16}});
  EXPECT_DOUBLE_EQ(fit.fitted(2).value(), 8);
  EXPECT_DOUBLE_EQ(at(fit, 12), 12);
  BatchFit first = fitOf({{4, 100}, {8, 12}, {16, 20}, {32, 40}});
  EXPECT_DOUBLE_EQ(first.fitted(0).value(), 12);
  EXPECT_DOUBLE_EQ(at(first, 24), 30);
}

/// Least Σ|x_i − t_i| over non-decreasing x, by trying all values that occur.
double bestL1(const std::vector<double> &times) {
  std::vector<double> values = times;
  std::sort(values.begin(), values.end());
  std::vector<double> cost(values.size(), 0);
  for (double time : times) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t v = 0; v < values.size(); ++v) {
      least = std::min(least, cost[v]);
      cost[v] = least + std::abs(values[v] - time);
    }
  }
  return *std::min_element(cost.begin(), cost.end());
}

TEST(BatchFit, IsTheClosestMonotoneSequenceAndNeverFalls) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.7);
  for (int round = 0; round < 300; ++round) {
    BatchFit::Points points;
    std::vector<double> times;
    int64_t batch = 0;
    for (int i = 0; i < 1 + round % 8; ++i) {
      batch += 1 + int64_t(random() % 6);
      times.push_back(double(batch) * noise(random));
      points.emplace_back(Samples(batch), Seconds(times.back()));
    }
    BatchFit fit(points);
    double distance = 0;
    for (size_t i = 0; i < times.size(); ++i)
      distance += std::abs(fit.fitted(i).value() - times[i]);
    EXPECT_NEAR(distance, bestL1(times), 1e-9);
    double before = 0;
    for (int64_t b = 1; b < 2 * batch + 3; ++b) {
      ASSERT_GE(at(fit, b), before) << "round " << round << ", batch " << b;
      before = at(fit, b);
    }
  }
}

TEST(BatchFit, ExtremesStayFinite) {
  int64_t huge = 2147483647;
  for (const BatchFit &fit :
       {fitOf({{1, 0}, {2, 0}}), fitOf({{1, 0}, {huge, 1e30}}), fitOf({{1, 1e30}, {2, 1e-300}}),
        fitOf({{1, 1e-300}, {2, 1e-300}, {huge, 1e30}}), fitOf({{huge, 1e-300}})})
    for (int64_t batch : {int64_t(1), int64_t(3), int64_t(1) << 30, huge}) {
      EXPECT_TRUE(std::isfinite(at(fit, batch)));
      EXPECT_GE(at(fit, batch), 0);
    }
}
} // namespace
