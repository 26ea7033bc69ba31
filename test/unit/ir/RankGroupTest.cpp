#include "ir/RankGroup.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

using namespace heterplan;

namespace {
std::vector<int> ranksOf(const RankGroup &group) { return {group.begin(), group.end()}; }

/// Ascending, of runs with strides of their own.
std::vector<int> randomRanks(std::mt19937 &random) {
  std::vector<int> ranks;
  int next = int(random() % 3);
  for (int run = int(random() % 4); run >= 0; --run) {
    int stride = 1 + int(random() % 3);
    for (int count = int(random() % 5); count >= 0; --count, next += stride)
      ranks.push_back(next);
  }
  return ranks;
}

/// The same ranks, in ranges that begin at random ones.
RankGroup addedInPieces(const std::vector<int> &ranks, std::mt19937 &random) {
  RankGroup group;
  for (size_t i = 0; i < ranks.size();) {
    RankRange range{ranks[i], 1, 1};
    if (i + 1 < ranks.size())
      range.stride = ranks[i + 1] - ranks[i];
    while (i + range.count < ranks.size() &&
           ranks[i + range.count] == range.last() + range.stride && random() % 3)
      ++range.count;
    group.add(range);
    i += range.count;
  }
  return group;
}
} // namespace

TEST(RankGroup, NeighboursAreOneRange) {
  RankGroup group{3, 4, 5, 6, 10, 12, 14};
  ASSERT_EQ(group.ranges().size(), 2u);
  EXPECT_EQ(group.ranges()[0], (RankRange{3, 4, 1}));
  EXPECT_EQ(group.ranges()[1], (RankRange{10, 3, 2}));
  EXPECT_EQ(ranksOf(group), (std::vector{3, 4, 5, 6, 10, 12, 14}));
  EXPECT_EQ(group.size(), 7);
}

TEST(RankGroup, KeepsWhatWasAdded) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<int> ranks = randomRanks(random);
    RankGroup group(ranks);
    EXPECT_EQ(ranksOf(group), ranks);
    EXPECT_EQ(group.size(), int64_t(ranks.size()));
    EXPECT_TRUE(group.ascends());
    for (int rank = 0; rank <= ranks.back() + 1; ++rank)
      EXPECT_EQ(group.contains(rank), std::find(ranks.begin(), ranks.end(), rank) != ranks.end());
    EXPECT_EQ(addedInPieces(ranks, random), group);
  }
}

TEST(RankGroup, OrderAndRepetitionAreKept) {
  for (std::vector<int> ranks : {std::vector{1, 0}, {0, 0}, {0, 2, 4, 3}, {5, 6, 5}}) {
    RankGroup group(ranks);
    EXPECT_EQ(ranksOf(group), ranks);
    EXPECT_FALSE(group.ascends());
  }
}

TEST(RankGroup, MoreRanksThanMemoryTakeNoTime) {
  constexpr int most = std::numeric_limits<int>::max();
  RankGroup group;
  group.add(RankRange{0, most, 1});
  EXPECT_EQ(group.size(), most);
  EXPECT_TRUE(group.contains(most - 1));
  EXPECT_FALSE(group.contains(most));
  EXPECT_EQ(RankRange({1, most, most}).last(), 1 + int64_t(most - 1) * most);
}
