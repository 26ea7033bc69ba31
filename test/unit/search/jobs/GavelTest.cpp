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

TEST(Gavel, TheLargestSumLeavesOutTheJobThatGainsLeast) {
  // Relative to the fastest type: a 1 on new, 0.5 on old; b 1 on new, 0.9 on old. The sum of a on
  // new and b on old is 1.9; the third job of the old type, c, gains 0.2 there.
  Cluster cluster = gpusOf({{"new", 1}, {"old", 1}});
  std::vector<jobs::Job> all{jobOnTypes("c", 5, {{"new", 5}, {"old", 1}}),
                             jobOnTypes("a", 20, {{"new", 4}, {"old", 2}}),
                             jobOnTypes("b", 10, {{"new", 1}, {"old", 0.9}})};
  PolicyRun run("gavel-sum", cluster, all);
  EXPECT_EQ(run.typeIn(2, 0), "old");
  EXPECT_NE(run.typeIn(1, 0) + run.typeIn(0, 0), ""); // new is used
  EXPECT_EQ(run.typeIn(2, 1), "old");
}

TEST(Gavel, CostPrefersCheapDevicesUnlessADeadlineNeedsFastOnes) {
  Cluster cluster = gpusOf({{"new", 1}, {"old", 1}});
  cluster.types[0].price = DollarsPerHour(8);
  cluster.types[1].price = DollarsPerHour(1);
  // Throughput for a dollar: new 1 / 8, old 0.5 / 1.
  for (int slots : {19, 9}) {
    jobs::Job job = jobOnTypes("job", 20, {{"new", 2}, {"old", 1}});
    job.deadline = jobs::JobDeadline{slots, false};
    PolicyRun run("gavel-cost", cluster, {job});
    EXPECT_EQ(run.typeIn(0, 0), slots == 19 ? "old" : "new");
    EXPECT_LE(run.schedule[0].completion(), slots);
    EXPECT_EQ(PolicyRun("gavel-sum", cluster, {job}).typeIn(0, 0), "new");
  }
  jobs::Job late = jobOnTypes("late", 20, {{"new", 2}, {"old", 1}});
  late.deadline = jobs::JobDeadline{3, false}; // cannot be met: cost alone counts
  EXPECT_EQ(PolicyRun("gavel-cost", cluster, {late}).typeIn(0, 0), "old");
}
