#include "search/exact/Levels.h"

#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace heterplan;

namespace {
/// Calls `use` with the slots and the levels of each set of stages that has room.
void onPackings(const KeptType &kept, const LimitedType &of,
                const std::function<void(int slots, int levels)> &use) {
  std::function<void(size_t, int, int)> add = [&](size_t from, int slots, int levels) {
    use(slots, levels);
    for (size_t i = from; i < of.uses.size(); ++i)
      if (const int stage = of.uses[i].first; slots + stage <= of.slots)
        add(i, slots + stage, levels + kept.taken[stage]);
  };
  add(0, 0, 0);
}

/// Whether no stages that have room take more than all levels, or more than is left for them.
bool holds(const KeptType &kept, const LimitedType &of) {
  bool result = true;
  onPackings(kept, of, [&](int slots, int levels) {
    result &= levels <= kept.count && levels <= kept.left[slots];
  });
  return result;
}

LimitedType randomType(std::mt19937 &random) {
  LimitedType of;
  of.slots = 1 + int(random() % 24);
  of.worth = 1;
  for (int use = 1; use <= of.slots; ++use)
    if (random() % 4 == 0)
      of.uses.push_back({use, 1 + random() % 5});
  return of;
}
} // namespace

TEST(Levels, StagesThatHaveRoomTakeAtMostAllLevels) {
  std::mt19937 random(1);
  int more = 0, faults = 0;
  for (int i = 0; i < 500; ++i) {
    const LimitedType of = randomType(random);
    const int count = 1 + int(random() % 12);
    KeptType kept = KeptType::roundedTo(count, of);
    EXPECT_TRUE(holds(kept, of));
    for (auto [use, stages] : of.uses) {
      const int down = use * count / of.slots;
      EXPECT_GE(kept.taken[use], down);
      more += kept.taken[use] > down;
      if (kept.taken[use] > down || use * count % of.slots == 0)
        continue;
      ++kept.taken[use]; // a level that the packings have no room for
      EXPECT_FALSE(holds(kept, of));
      --kept.taken[use];
      ++faults;
    }
    for (size_t slots = 1; slots < kept.left.size(); ++slots)
      EXPECT_GE(kept.left[slots], kept.left[slots - 1]);
  }
  EXPECT_GT(more, 100);
  EXPECT_GT(faults, 100);
}

TEST(Levels, GroupsThatFillATypeBadlyTakeAllOfIt) {
  // Two groups of 29 of 64 devices are half of them each, as no third one has room.
  const LimitedType of{0, 64, 1, {{29, 1}, {58, 1}}};
  const KeptType kept = KeptType::roundedTo(2, of);
  EXPECT_EQ(kept.taken[29], 1);
  EXPECT_EQ(kept.taken[58], 2);
  EXPECT_EQ(kept.left[35], 1);
  EXPECT_EQ(kept.left[28], 0);
  EXPECT_GT(kept.counted(of), 1);
}

TEST(Levels, TypesShareTheStatesByTheirWorth) {
  const LimitedType dear{0, 8, 10, {{1, 1}, {2, 1}}}, cheap{1, 8, 0.1, {{1, 1}, {2, 1}}};
  EXPECT_EQ(Levels::within(1, {dear, cheap}).types.size(), 0u);
  const Levels few = Levels::within(9, {dear, cheap});
  ASSERT_EQ(few.types.size(), 1u);
  EXPECT_EQ(few.types[0].type, 0);
  EXPECT_EQ(few.types[0].count, 8);
  const Levels all = Levels::within(81, {dear, cheap});
  EXPECT_EQ(all.states(), 81u);
  EXPECT_DOUBLE_EQ(all.counted({dear, cheap}), 1);
  // State 80: nothing is taken. A stage takes two devices of type 0 and one of type 1.
  EXPECT_EQ(all.stateLeft({0, 0}), 80u);
  EXPECT_EQ(all.stateLeft({2, 1}), 80 - all.statesTaken({2, 1}));
}

TEST(Levels, AnotherTypeTakesTheStatesThatAreLeft) {
  const LimitedType first{0, 8, 2, {{1, 1}}}, second{1, 8, 1, {{1, 1}}};
  const Levels one = Levels().withOneMore(40, {first, second});
  ASSERT_EQ(one.types.size(), 1u);
  EXPECT_EQ(one.types[0].type, 0);
  const Levels both = one.withOneMore(40, {first, second});
  ASSERT_EQ(both.types.size(), 2u);
  EXPECT_EQ(both.types[1].count, 3);
  EXPECT_EQ(both.withOneMore(40, {first, second}).types.size(), 2u);
}
