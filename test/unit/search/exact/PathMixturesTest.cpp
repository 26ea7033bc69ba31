// Mixtures of what paths take, held to all paths of small random problems.
#include "search/exact/PathMixtures.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

using namespace heterplan;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A chain of layers in which any stage of some positions may be one of several.
class Instance {
public:
  explicit Instance(unsigned seed) : random(seed) {
    for (int end = 1; end <= last; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (int option = 0; option < options; ++option)
          stages.push_back({begin, end, drawn()});
  }

  /// The least that any path takes: Σ τ and the synchronisation that stays exposed.
  double leastOfPaths() const {
    std::vector<const Addition *> path;
    return leastOfPaths(0, path);
  }

  /// The bound that mixtures give.
  double bound(MixtureTable &table, bool endsOnly = false) const {
    table.reset(last + 1, endsOnly);
    table.setStart(0, 1);
    for (const Stage &stage : stages) // by end
      table.addStage(stage.added, table, stage.begin, stage.end, 1);
    return table.fill()[last];
  }

  /// The bound that the least fill and the least forward time give.
  double boundOfTwo() const {
    std::vector<double> fill(last + 1, infinity), forward(last + 1, infinity);
    fill[0] = forward[0] = 0;
    for (const auto &[begin, end, added] : stages) {
      forward[end] = std::min(forward[end], forward[begin] + added.forward);
      fill[end] =
          std::min(fill[end], added.time + std::max(fill[begin], added.sync + forward[begin]));
    }
    return fill[last];
  }

  static constexpr int last = 4, options = 3;
  struct Stage {
    int begin, end;
    Addition added;
  };
  std::vector<Stage> stages;

private:
  Addition drawn() {
    std::uniform_real_distribution<double> share(0, 1);
    const double forward = share(random);
    return {forward + 2 * share(random), forward, 6 * share(random) * share(random)};
  }

  /// R_s = max(sync_s, R_{s+1} − backward_s), from the last stage to the first.
  static double timeOf(const std::vector<const Addition *> &path) {
    double sum = 0, exposed = 0;
    for (auto stage = path.rbegin(); stage != path.rend(); ++stage) {
      sum += (*stage)->time;
      exposed = std::max((*stage)->sync, exposed - ((*stage)->time - (*stage)->forward));
    }
    return sum + exposed;
  }

  double leastOfPaths(int position, std::vector<const Addition *> &path) const {
    if (position == last)
      return timeOf(path);
    double least = infinity;
    for (const Stage &stage : stages) {
      if (stage.begin != position)
        continue;
      path.push_back(&stage.added);
      least = std::min(least, leastOfPaths(stage.end, path));
      path.pop_back();
    }
    return least;
  }

  std::mt19937 random;
};
} // namespace

TEST(PathMixtures, noPathTakesLessAndTheyTellMoreThanTwoFigures) {
  int loose = 0, tighter = 0, tight = 0;
  MixtureTable table;
  constexpr unsigned seeds = 1500;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(seed);
    const double least = instance.leastOfPaths(), bound = instance.bound(table);
    const double ofTwo = instance.boundOfTwo();
    EXPECT_LE(bound, least * (1 + 1e-12));
    EXPECT_GE(bound, ofTwo * (1 - 1e-12));
    EXPECT_DOUBLE_EQ(instance.bound(table, /*endsOnly=*/true), ofTwo);
    EXPECT_DOUBLE_EQ(table.at(Instance::last).withExposed(0), ofTwo);
    loose += ofTwo < least * (1 - 1e-9);
    tighter += bound > ofTwo * (1 + 1e-9);
    tight += bound > least * (1 - 1e-9);
  }
  EXPECT_GT(loose, 50);
  EXPECT_GT(tighter, loose / 2);
  EXPECT_GT(tight, int(seeds) - loose);
}

TEST(PathMixtures, theStepsOfTheLeastAddUpToIt) {
  MixtureTable table;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(seed);
    const double bound = instance.bound(table);
    for (const Instance::Stage &stage : instance.stages)
      for (int mixture = 0; mixture <= fillOnly; ++mixture) {
        int before = mixture;
        const double with = leastWith(stage.added, table.at(stage.begin), before);
        EXPECT_LE(before, mixture);
        EXPECT_LE(table.at(stage.end).of[mixture], with * (1 + 1e-12));
      }
    double nearest = infinity;
    for (const Instance::Stage &stage : instance.stages) {
      int mixture = fillOnly;
      if (stage.end == Instance::last)
        nearest = std::min(nearest, leastWith(stage.added, table.at(stage.begin), mixture));
    }
    EXPECT_NEAR(nearest / bound, 1, 1e-12);
  }
}

TEST(PathMixtures, compressedOnesAreNoGreater) {
  MixtureTable table;
  Instance(1).bound(table);
  MixtureTable compressed = table;
  compressed.compress();
  int less = 0;
  for (int place = 0; place <= Instance::last; ++place)
    for (int mixture = 0; mixture <= fillOnly; ++mixture) {
      const double of = table.at(place).of[mixture];
      EXPECT_LE(compressed.at(place).of[mixture], of);
      EXPECT_GE(compressed.at(place).of[mixture], of * (1 - 1e-6));
      less += compressed.at(place).of[mixture] < of;
    }
  EXPECT_GT(less, 0);
  EXPECT_NEAR(Instance(1).bound(compressed), table.fill().back(), 0); // as a new one
}

TEST(PathMixtures, exposedSynchronisationCountsWithEachOfThem) {
  const LeastMixtures two = LeastMixtures::ofBoth(/*fill=*/10, /*forward=*/2);
  EXPECT_EQ(two.withExposed(3), 10);
  EXPECT_EQ(two.withExposed(9), 11);
  LeastMixtures all = two;
  all.of = {2, 5, 8, 9, 10};
  EXPECT_EQ(all.withExposed(3), 10);
  EXPECT_EQ(all.withExposed(4), 10);
  EXPECT_EQ(all.withExposed(6), 11); // of one half each: 8 + 6 / 2
}
