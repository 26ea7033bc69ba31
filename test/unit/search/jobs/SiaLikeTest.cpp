// The integer model of Sia (SOSP 2023, section 3.4) on instances whose sums are worked out by hand.
#include "Fixture.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

TEST(SiaLike, ChoosesTypesAndCountsOfTheLeastSumOfPowers) {
  // (goodput / least)^-0.5. a: new 4^-.5 or, with two, 8^-.5; old 1 or 2^-.5.
  // b: new 2^-.5 or 4^-.5; old 1 or 2^-.5. a on two new and b on two old GPUs: 0.35 + 0.71.
  jobs::Job a = jobOnTypes("a", 80, {{"new", 4}, {"old", 1}});
  jobs::Job b = jobOnTypes("b", 80, {{"new", 2}, {"old", 1}});
  a.batch = b.batch = 2;
  PolicyRun run("sia-like", gpusOf({{"new", 2}, {"old", 2}}), {b, a});
  EXPECT_EQ(run.typeIn(0, 0), "old");
  EXPECT_EQ(run.workersIn(0, 0), 2);
  EXPECT_EQ(run.typeIn(1, 0), "new");
  EXPECT_EQ(run.workersIn(1, 0), 2);
}

TEST(SiaLike, LeavesOutTheJobThatGainsLeast) {
  // Sums with the penalty of 1.1: c on new, a on old: 9^-.5 + 2^-.5 + 1.1 is least.
  PolicyRun run("sia-like", gpusOf({{"new", 1}, {"old", 1}}),
                {jobOnTypes("b", 20, {{"new", 1}, {"old", 1}}),
                 jobOnTypes("a", 20, {{"new", 1}, {"old", 2}}),
                 jobOnTypes("c", 90, {{"new", 9}, {"old", 1}})});
  EXPECT_EQ(run.typeIn(0, 0), "");
  EXPECT_EQ(run.typeIn(1, 0), "old");
  EXPECT_EQ(run.typeIn(2, 0), "new");
}

TEST(SiaLike, MovesAJobOnlyIfTheRestartPays) {
  for (double restart : {0.0, 0.5}) {
    jobs::Job first = jobOnTypes("first", 6, {{"new", 2}});
    jobs::Job job = jobOnTypes("job", 20, {{"new", 1.2}, {"old", 1}});
    job.restart = Seconds(restart);
    PolicyRun run("sia-like", gpusOf({{"new", 1}, {"old", 1}}), {first, job});
    EXPECT_EQ(run.typeIn(1, 2), "old");
    EXPECT_EQ(run.typeIn(1, 3), restart > 0 ? "old" : "new"); // 1.2 · 0.5 is less than 1
  }
}

TEST(SiaLike, SharesGpusOfOneTypeEvenlyAmongEqualJobs) {
  // 2 · 2^-.5 is less than 1 + 4^-.5: p below 0 is fair.
  jobs::Job a = jobOnTypes("a", 80, {{"new", 1}}), b = a;
  b.name = "b";
  a.batch = b.batch = 4;
  PolicyRun run("sia-like", gpusOf({{"new", 4}}), {a, b});
  EXPECT_EQ(run.workersIn(0, 0), 2);
  EXPECT_EQ(run.workersIn(1, 0), 2);
}
