#include "Fixture.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

TEST(Gavel, GivesEachJobTheTypeOnWhichItGainsMost) {
  Cluster cluster = gpusOf({{"new", 1}, {"old", 1}});
  PolicyRun run("gavel", cluster,
                {jobOnTypes("a", 12, {{"new", 1}, {"old", 2}}),
                 jobOnTypes("b", 18, {{"new", 3}, {"old", 1}})});
  for (int slot = 0; slot < 6; ++slot) {
    EXPECT_EQ(run.typeIn(0, slot), "old") << slot;
    EXPECT_EQ(run.typeIn(1, slot), "new") << slot;
  }
}

TEST(Gavel, EqualJobsTakeTurns) {
  Cluster cluster = gpusOf({{"new", 1}});
  PolicyRun run("gavel", cluster,
                {jobOnTypes("a", 6, {{"new", 1}}), jobOnTypes("b", 6, {{"new", 1}})});
  ASSERT_TRUE(run.schedule[0].isAdmitted() && run.schedule[1].isAdmitted());
  EXPECT_EQ(makespan(run.schedule), 12);
  EXPECT_GE(std::min(run.schedule[0].completion(), run.schedule[1].completion()), 10);
}
