// Finish-time fairness (Themis, NSDI 2020, section 3) on instances whose fairness is worked out by
// hand.
#include "Fixture.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
double worst(const PolicyRun &run) { return fairness(run.problem, run.schedule).worst; }
} // namespace

TEST(ThemisLike, GivesANewJobTheGpuOfOneThatIsAheadOfItsShare) {
  jobs::Job later = jobOnTypes("later", 4, {{"new", 1}});
  later.arrival = 4;
  PolicyRun run("themis-like", gpusOf({{"new", 1}}), {jobOnTypes("long", 20, {{"new", 1}}), later});
  EXPECT_EQ(run.typeIn(0, 3), "new");
  // In slot 4: long (4 + 16·2) / (20·2) = 0.9, later (0 + 4·2) / (4·2) = 1.
  EXPECT_EQ(run.typeIn(1, 4), "new");
  EXPECT_EQ(run.typeIn(0, 4), "");
  // In slot 5: long (5 + 16·2) / 40 = 0.925, later (1 + 3·2) / 8 = 0.875.
  EXPECT_EQ(run.typeIn(0, 5), "new");
  // No job ends later than with its equal share: the sharing incentive.
  EXPECT_LE(run.schedule[1].completion(), 4 + 8 - 1);
  EXPECT_LE(worst(run), 1);
}

TEST(ThemisLike, IsFairerThanShortestFirstToALongJob) {
  std::vector<jobs::Job> all{jobOnTypes("long", 10, {{"new", 1}})};
  for (int slot = 0; slot < 20; slot += 2) {
    all.push_back(jobOnTypes(("short" + std::to_string(slot)).c_str(), 2, {{"new", 1}}));
    all.back().arrival = slot;
  }
  PolicyRun run("themis-like", gpusOf({{"new", 1}}), all);
  PolicyRun shortest("srtf", gpusOf({{"new", 1}}), all);
  EXPECT_EQ(shortest.schedule[0].completion(), 29); // 30 slots; 2, then 1 job are there
  EXPECT_NEAR(worst(shortest), 30 / (10 * 50 / 30.0), 1e-9);
  EXPECT_LT(worst(run), worst(shortest));
}

TEST(ThemisLike, TheFifthThatIsFarthestBehindSharesByTheLeastProduct) {
  // Ten equal jobs: two bid. Two workers each: (8 / 2)² is less than (8 / 1) · (8 / 3).
  std::vector<jobs::Job> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(jobOnTypes(("job" + std::to_string(i)).c_str(), 8, {{"new", 1}}));
    all.back().batch = 4;
  }
  PolicyRun run("themis-like", gpusOf({{"new", 4}}), all);
  for (int job = 0; job < 10; ++job)
    EXPECT_EQ(run.workersIn(job, 0), job < 2 ? 2 : 0) << job;
}
