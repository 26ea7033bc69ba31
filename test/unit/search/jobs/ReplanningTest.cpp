// Re-planning: the effect of a new job on those that were admitted before.
#include "Fixture.h"

#include "search/jobs/policy/Policy.h"
#include "search/jobs/policy/Replanning.h"
#include "support/JobsChecker.h"
#include "support/RandomJobs.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace heterplan;
using namespace heterplan::test;

namespace {
jobs::Schedule scheduleOf(const jobs::Problem &problem, jobs::Replan replan, uint64_t seed = 0) {
  jobs::PolicyOptions options;
  options.replan = replan;
  options.seed = seed;
  return jobs::makePolicy("pd-ors")->run(problem, options).schedule;
}

/// "early" could end in slot 0 or much later; "late" is worth far more, but only in slot 1.
jobs::Problem contended(const Cluster &cluster) {
  jobs::Job early = gpuJob("early"), late = gpuJob("late");
  early.gradient = late.gradient = Bytes(0);
  early.samples = 80; // two slots of four GPUs
  early.utility.value = 10;
  late.samples = 40;
  late.arrival = 1;
  late.utility = {jobs::Utility::Kind::Deadline, 100, 0, 0, 0};
  return problemOf(cluster, {early, late}, 6, Seconds(10));
}
} // namespace

TEST(Replanning, MakesRoomForAJobThatIsWorthMore) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = contended(cluster);
  jobs::Schedule schedule = scheduleOf(problem, jobs::Replan::RaiseTotal);
  ASSERT_TRUE(schedule[1].isAdmitted());
  EXPECT_EQ(schedule[1].completion(), 1);
  EXPECT_TRUE(schedule[0].isAdmitted()); // it moves, and is not dropped
}

TEST(Replanning, HoldsEveryRuleInEveryMode) {
  int admitted = 0;
  for (int seed = 7000; seed < 7300; ++seed) {
    RandomJobs random(seed, {6, 8, 3, seed % 2 == 0});
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    for (jobs::Replan replan :
         {jobs::Replan::None, jobs::Replan::KeepEnds, jobs::Replan::RaiseTotal}) {
      jobs::Schedule schedule = scheduleOf(*problem, replan, seed);
      std::vector<bool> taken;
      for (const jobs::JobPlan &plan : schedule) {
        taken.push_back(plan.isAdmitted());
        admitted += plan.isAdmitted();
        EXPECT_FALSE(plan.reason.empty() && !plan.isAdmitted()) << "seed " << seed;
      }
      JobsChecker checker(random.cluster, random.workload);
      EXPECT_EQ(checker.complaints(JobsChecker::rowsOf(*problem, schedule), taken), "")
          << "seed " << seed << " mode " << int(replan);
    }
  }
  EXPECT_GT(admitted, 300);
}

TEST(Replanning, DropsNoAdmittedJobAndKeepsEnds) {
  int later = 0;
  for (int seed = 7300; seed < 7450; ++seed) {
    RandomJobs random(seed, {8, 8, 3});
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    std::vector<int> all(problem->size());
    std::iota(all.begin(), all.end(), 0);
    for (jobs::Replan replan : {jobs::Replan::KeepEnds, jobs::Replan::RaiseTotal}) {
      jobs::Prices prices(*problem, jobs::loadPriceLimits(*problem, all));
      jobs::Replanner replanner(*problem, std::move(prices), {}, replan);
      jobs::RoundingCounts counts;
      jobs::Schedule before(problem->size());
      for (int job : problem->arrivals()) {
        replanner.decide(job, counts);
        for (int other : all) {
          if (!before[other].isAdmitted())
            continue;
          ASSERT_TRUE(replanner.schedule()[other].isAdmitted()) << "seed " << seed;
          int end = replanner.schedule()[other].completion();
          later += end > before[other].completion();
          if (replan == jobs::Replan::KeepEnds) {
            EXPECT_LE(end, before[other].completion()) << "seed " << seed;
          }
        }
        before = replanner.schedule();
      }
    }
  }
  EXPECT_GT(later, 0); // with RaiseTotal some jobs do end later
}
