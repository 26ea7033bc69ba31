#include "Fixture.h"

#include "search/jobs/JobWays.h"
#include "search/jobs/UpperBound.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// A worker trains 10/1.1 samples of a slot on one node, and 5 over the network.
constexpr double inside = 10 / 1.1, outside = 5;

jobs::Job jobOf(const char *name, int64_t samples) {
  jobs::Job job = gpuJob(name);
  job.samples = samples;
  job.utility = {jobs::Utility::Kind::Deadline, 10, 0, 0, 0};
  return job;
}
} // namespace

TEST(JobWays, WorkOfOneNodeAndOfSeveralDoesNotAddUp) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = problemOf(cluster, {jobOf("a", 20)}, 1, Seconds(10));
  jobs::Ways ways = jobs::waysOf(problem, 0);
  EXPECT_FALSE(ways.addsUp);
  EXPECT_NEAR(ways.most, 4 * outside, 1e-9);
  ASSERT_EQ(ways.ways.size(), 2u);
  EXPECT_NEAR(ways.ways[0].most, 2 * inside, 1e-9);
  EXPECT_NEAR(ways.ways[1].most, 4 * outside, 1e-9);
}

TEST(JobWays, ServersOfAnInternalSlotNeedRoomOnTheNode) {
  Cluster cluster = twoGpuNodes();
  jobs::Job job = jobOf("a", 20);
  job.worker[jobs::Cpu] = 2000; // with a server of one core, one worker fits on four cores
  jobs::Ways ways = jobs::waysOf(problemOf(cluster, {job}, 1, Seconds(10)), 0);
  ASSERT_FALSE(ways.ways.empty());
  EXPECT_TRUE(ways.ways[0].isInternal);
  EXPECT_NEAR(ways.ways[0].most, inside, 1e-9);
}

TEST(JobsUpperBound, AJobOnSeveralNodesPaysForTheNetworkWithAllItsWorkers) {
  Cluster cluster = twoGpuNodes();
  // Each job needs all four GPUs of the only slot: together they are worth one of them. If work on
  // one node and over the network added up, 2.4 GPUs would do.
  std::vector<jobs::Job> both = {jobOf("a", 20), jobOf("b", 20)};
  EXPECT_NEAR(jobs::utilityUpperBound(problemOf(cluster, both, 1, Seconds(10))), 10, 0.1);
}

TEST(JobsUpperBound, JobsThatFitOnANodeEachAreBothCounted) {
  Cluster cluster = twoGpuNodes();
  std::vector<jobs::Job> both = {jobOf("a", 18), jobOf("b", 18)};
  EXPECT_NEAR(jobs::utilityUpperBound(problemOf(cluster, both, 1, Seconds(10))), 20, 0.1);
}
