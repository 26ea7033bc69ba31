// Runs of neighbours in one node, and the places of their last stages.
#include "search/verify/bound/NodeRuns.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Units of a run whose choices are given, or 0 if the node has no room for it.
size_t placeOfRun(const NodeRuns &runs, std::initializer_list<int> choices) {
  size_t place = 0;
  for (int choice : choices) {
    if (place == 0)
      place = runs.first(choice);
    else if (runs.mayJoin(place, choice))
      place = runs.joined(place, choice);
    else
      return 0;
  }
  return place;
}

TEST(NodeRuns, FillANodeAndNoMore) {
  const NodeRuns runs({0, 0.25, 0.5, 1, 2}, 8);
  EXPECT_NE(placeOfRun(runs, {1, 1, 1, 1}), 0U);
  EXPECT_EQ(placeOfRun(runs, {1, 1, 1, 1, 1}), 0U);
  EXPECT_NE(placeOfRun(runs, {2, 1, 1}), 0U);
  EXPECT_EQ(placeOfRun(runs, {2, 1, 2}), 0U);
  EXPECT_EQ(placeOfRun(runs, {3, 1}), 0U);
  EXPECT_EQ(placeOfRun(runs, {4, 1}), 0U);
}

TEST(NodeRuns, NumberEachPlaceOnce) {
  const NodeRuns runs({0, 0.125, 0.5, 1, 2}, 8);
  size_t places = 0;
  for (int choice = 0; choice < 5; ++choice)
    for (size_t i = 0; i < runs.placesOf(choice); ++i, ++places) {
      EXPECT_EQ(runs.first(choice) + i, places);
      EXPECT_EQ(runs.choiceOf(places), choice);
    }
  EXPECT_EQ(runs.count(), places);
  EXPECT_EQ(runs.placesOf(0), 1U); // no stage
  EXPECT_EQ(runs.placesOf(1), 8U);
  EXPECT_EQ(runs.placesOf(3), 1U);
}

TEST(NodeRuns, NoStageSharesANodeWithTheFirstOne) {
  const NodeRuns runs({0, 0.125}, 8);
  EXPECT_FALSE(runs.mayJoin(0, 1));
}

TEST(NodeRuns, RoundPartsDown) {
  const NodeRuns runs({0, 0.3, 0.01}, 8); // 2.4 and 0.08 units
  EXPECT_NE(placeOfRun(runs, {1, 1, 1, 1}), 0U);
  EXPECT_EQ(placeOfRun(runs, {1, 1, 1, 1, 1}), 0U);
  EXPECT_EQ(placeOfRun(runs, {2, 2, 2}), runs.first(2));
}

TEST(NodeRuns, HaveMoreRoomTheShorterTheyAre) {
  const NodeRuns runs({0, 0.25, 0.5}, 8);
  EXPECT_TRUE(runs.hasRoomOf(placeOfRun(runs, {1}), placeOfRun(runs, {1, 1})));
  EXPECT_FALSE(runs.hasRoomOf(placeOfRun(runs, {1, 1}), placeOfRun(runs, {1})));
  EXPECT_TRUE(runs.hasRoomOf(placeOfRun(runs, {1, 1}), placeOfRun(runs, {2})));
}
} // namespace
