// Bounds of burst plans against all widths of small chains: by any weights they are never above a
// plan, and what they cut off is never on the way to the best one.
#include "search/burst/BurstBounds.h"
#include "property/burst/Chain.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
constexpr double rounding = 1e-9;

/// A chain, and its table and all of its plans.
class BoundedChain {
public:
  BoundedChain(uint64_t seed, bool deviceTime, double slack = 0, double parameters = 1)
      : chain(test::randomChain(seed, 5, 4)) {
    for (test::ChainLayer &layer : chain.layers)
      layer.parameters *= parameters;
    if (slack > 0)
      chain.longest = chain.bruteForce(test::Least::Time) * slack;
    goal.deviceTime = deviceTime;
    goal.longest = Seconds(slack > 0 ? chain.longest : infinity);
    goal.amplificationLimit = chain.limit;
    goal.mostDevices = chain.devices;
    problem = std::make_unique<Problem>(chain.problem());
    pool = std::make_unique<Pool>(problem->cluster, 0, chain.devices, Samples(chain.batch),
                                  Widths::Powers);
    costs = std::make_unique<BurstCosts>(*problem, *pool);
    std::vector<int> positions(chain.layers.size() + 1);
    for (size_t i = 0; i < positions.size(); ++i)
      positions[i] = int(i);
    table = std::make_unique<BurstTable>(*costs, positions, goal);
    list({});
  }

  double least(BurstWeights weights) const {
    double result = infinity;
    for (const auto &[widths, worth] : plans)
      result = std::min(result, weights.time * worth.time + weights.deviceTime * worth.deviceTime);
    return result;
  }

  /// Time of the stages behind each cut of a plan, including the moves between them, and the width
  /// of the first of them; the last stage comes first.
  struct Behind {
    BurstSums sums;
    int cut = 0, width = 0;
  };
  std::vector<Behind> stagesBehind(const std::vector<int> &widths) const {
    std::vector<Behind> result;
    BurstSums sums;
    for (int end = int(widths.size()), next = -1; end > 0;) {
      int begin = end - 1, width = indexOf(widths[begin]);
      while (begin > 0 && widths[begin - 1] == widths[begin])
        --begin;
      if (next >= 0) {
        sums = sums + table->sumsOf(table->move(end, width, next), width, next);
        sums.open = std::max(0.0, sums.open);
      }
      const BurstRun &run = table->run(begin, end, width);
      double open = std::max(0.0, sums.open - run.backward) + run.sum;
      sums = sums + table->sumsOf(run, width);
      sums.open = open;
      result.push_back({sums, begin, width});
      next = width;
      end = begin;
    }
    return result;
  }

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  test::Chain chain;
  BurstGoal goal;
  std::unique_ptr<BurstTable> table;
  std::vector<std::pair<std::vector<int>, test::Worth>> plans;

private:
  int indexOf(int width) const {
    int index = 0;
    while (table->width(index) != width)
      ++index;
    return index;
  }

  void list(std::vector<int> widths) {
    if (widths.size() == chain.layers.size()) {
      if (test::Worth worth = chain.worth(widths); worth.allowed)
        plans.push_back({widths, worth});
      return;
    }
    for (int width : chain.widths()) {
      widths.push_back(width);
      list(widths);
      widths.pop_back();
    }
  }

  std::unique_ptr<Problem> problem;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<BurstCosts> costs;
};

TEST(BurstBounds, SumsByAnyWeightsAreNeverAboveAPlan) {
  constexpr BurstWeights planted[] = {{1, 0, 0},   {1, 0, 0.3},   {1, 0, 1}, {0, 1, 0},
                                      {2, 1, 0.5}, {0.1, 1, 0.9}, {5, 1, 1}};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    BoundedChain chain(seed, /*deviceTime=*/false);
    for (const BurstWeights &weights : planted) {
      Completions sums(*chain.table, nullptr, weights);
      EXPECT_LE(sums.whole(), chain.least(weights) * (1 + rounding))
          << "seed " << seed << ", weights " << weights.time << " " << weights.deviceTime << " "
          << weights.open;
    }
    Completions deviceTime(*chain.table, nullptr, {0, 1, 0}); // which is a sum
    EXPECT_NEAR(deviceTime.whole(), chain.least({0, 1, 0}), rounding * deviceTime.whole());
  }
}

TEST(BurstBounds, OpenSumsOfGradientsTightenTheBound) {
  int tighter = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    BoundedChain chain(seed, /*deviceTime=*/false, 0, /*parameters=*/10);
    double bound = BurstBounds(*chain.table, nullptr, chain.goal).whole();
    double passesOnly = Completions(*chain.table, nullptr, {1, 0, 0}).whole();
    double best = chain.least({1, 0, 0});
    EXPECT_GE(bound, passesOnly) << "seed " << seed;
    EXPECT_LE(bound, best * (1 + rounding)) << "seed " << seed;
    tighter += bound > passesOnly * 1.01;
  }
  EXPECT_GT(tighter, 5);
}

TEST(BurstBounds, DeviceTimeWithinAnIterationIsNeverBelowTheBound) {
  int weighted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    BoundedChain chain(seed, /*deviceTime=*/true, 1.001 + 0.1 * double(seed % 5));
    double bound = BurstBounds(*chain.table, nullptr, chain.goal).whole();
    EXPECT_LE(bound, chain.least({0, 1, 0}) * (1 + rounding)) << "seed " << seed;
    weighted += bound > Completions(*chain.table, nullptr, {0, 1, 0}).whole() * 1.001;
  }
  EXPECT_GT(weighted, 10);
}

TEST(BurstBounds, NoPlanWithinTheTimeIsSaid) {
  BoundedChain chain(1, /*deviceTime=*/true, 1.001);
  chain.goal.longest = chain.goal.longest * 0.2;
  EXPECT_EQ(BurstBounds(*chain.table, nullptr, chain.goal).whole(), BoundedChain::infinity);
}

/// For each goal, the bounds allow the best plan's stages behind any cut within the value of that
/// plan, and not below it.
void expectBestIsKept(uint64_t seed, bool deviceTime) {
  BoundedChain chain(seed, deviceTime, deviceTime ? 1.2 : 0);
  auto valueOf = [&](const auto &plan) {
    return deviceTime ? plan.second.deviceTime : plan.second.time;
  };
  auto best =
      std::min_element(chain.plans.begin(), chain.plans.end(),
                       [&](const auto &a, const auto &b) { return valueOf(a) < valueOf(b); });
  ASSERT_NE(best, chain.plans.end());
  const auto &[widths, worth] = *best;
  BurstBounds bounds(*chain.table, nullptr, chain.goal);
  BurstLimits limits{(deviceTime ? chain.chain.longest : worth.time) * (1 + rounding),
                     deviceTime ? worth.deviceTime * (1 + rounding) : BoundedChain::infinity};
  for (const BoundedChain::Behind &behind : chain.stagesBehind(widths))
    EXPECT_TRUE(bounds.allow(behind.sums, behind.cut, behind.width, /*isOwn=*/false, limits))
        << "seed " << seed << ", cut " << behind.cut;
  BurstLimits less{deviceTime ? limits.time : bounds.whole() * 0.99,
                   deviceTime ? bounds.whole() * 0.99 : limits.deviceTime};
  EXPECT_FALSE(bounds.allow({}, chain.table->cuts(), 0, /*isOwn=*/false, less)) << "seed " << seed;
}

TEST(BurstBounds, WhatLeadsToTheBestPlanIsAllowed) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    expectBestIsKept(seed, /*deviceTime=*/false);
    expectBestIsKept(seed, /*deviceTime=*/true);
  }
}
} // namespace
