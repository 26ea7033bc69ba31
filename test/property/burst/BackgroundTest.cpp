// Background jobs in the gaps of burst plans: what is predicted of them, and that the checker finds
// what cannot be.
#include "Chain.h"

#include "search/Search.h"
#include "search/burst/Background.h"
#include "search/burst/BurstPlan.h"
#include "search/verify/Checker.h"

#include <gtest/gtest.h>

using namespace heterplan;
using test::Chain;

namespace {
/// A burst plan with gaps, and a job of small layers on the same devices.
struct TwoJobs {
  explicit TwoJobs(uint64_t seed, double scale = 0.05)
      : foreground(test::randomChain(seed, 7, 4)), background(test::randomChain(seed + 999, 5, 2)) {
    foreground.limit = 1.5;
    foreground.memory = background.memory = 1e6;
    background.devices = foreground.devices;
    background.batch = 4;
    for (test::ChainLayer &layer : background.layers) {
      layer.forward *= scale;
      layer.backward *= scale;
      layer.overhead *= scale;
      layer.update *= scale;
    }
    llvm::ExitOnError check;
    Problem problem = foreground.problem();
    plan = *check(search(problem, "auto", {})).plan;
    program = check(lower(plan, problem.graph, problem.cluster));
    Problem copyProblem = background.problem();
    copy = check(planCopy(copyProblem, 0));
    copyProgram = check(lower(copy, copyProblem.graph, copyProblem.cluster));
  }

  BackgroundJob pack(double maxSlowdown) {
    llvm::ExitOnError check;
    Problem problem = foreground.problem();
    return check(packBackground(plan, {copy, copyProgram, program, problem.cluster, maxSlowdown}));
  }

  /// Names of the checks that fail with this job.
  std::string failures(const BackgroundJob &job) {
    llvm::ExitOnError check;
    Problem problem = foreground.problem();
    Plan both = plan;
    both.background = job;
    std::string result;
    for (const Finding &finding :
         check(examinePlan(both, problem.graph, problem.cluster, *problem.costs)))
      if (!finding.check.holds)
        result += finding.check.name + " ";
    return result;
  }

  Chain foreground, background;
  Plan plan, copy;
  Program program, copyProgram;
};

double idleShare(const Plan &plan, const DeviceRef &device) {
  double idle = 0;
  for (const IdleGap &gap : plan.idle)
    if (gap.device == device)
      idle += gap.duration.value();
  return idle / plan.iteration.value();
}

TEST(Background, FillsGapsWithoutSlowingThePlanDown) {
  int with = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    TwoJobs jobs(seed);
    BackgroundJob job = jobs.pack(0);
    EXPECT_EQ(job.predictedSlowdown, 0);
    EXPECT_EQ(jobs.failures(job), "") << "seed " << seed;
    double sum = jobs.plan.throughput.value();
    for (const BackgroundCopy &copy : job.copies) {
      double busy = copy.rate.value() / double(job.batch.value()) * job.iteration.value();
      EXPECT_GT(busy, 0);
      EXPECT_LE(busy, idleShare(jobs.plan, copy.device) * (1 + 1e-9)) << "seed " << seed;
      sum += copy.rate.value();
    }
    EXPECT_NEAR(job.clusterThroughput.value(), sum, 1e-9 * sum);
    with += !job.copies.empty();
  }
  EXPECT_GT(with, 10);
}

/// Small passes fill nearly all that is idle.
TEST(Background, TheSmallerItsPassesTheMoreOfTheGapsIsUsed) {
  int gaps = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    TwoJobs jobs(seed, 1e-4);
    for (const BackgroundCopy &copy : jobs.pack(0).copies) {
      const BackgroundJob job = jobs.pack(0);
      double busy = copy.rate.value() / double(job.batch.value()) * job.iteration.value();
      EXPECT_GT(busy, 0.98 * idleShare(jobs.plan, copy.device)) << "seed " << seed;
      ++gaps;
    }
  }
  EXPECT_GT(gaps, 40);
}

TEST(Background, MoreSlowdownIsTakenOnlyWhereItPays) {
  int slowed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    TwoJobs jobs(seed, 0.5);
    double none = jobs.pack(0).clusterThroughput.value();
    for (double most : {0.02, 0.2}) {
      BackgroundJob job = jobs.pack(most);
      EXPECT_LE(job.predictedSlowdown, most * (1 + 1e-9));
      EXPECT_GE(job.clusterThroughput.value(), none * (1 - 1e-9)) << "seed " << seed;
      if (seed % 6 == 0) {
        EXPECT_EQ(jobs.failures(job), "") << "seed " << seed;
      }
      slowed += job.predictedSlowdown > 0;
    }
  }
  EXPECT_GT(slowed, 5);
}

/// Worked out by hand: device 1 is idle for the 10 s in which the second layer runs on device 0
/// alone, of an iteration of 14 s.
struct ByHand {
  explicit ByHand(int64_t batch) {
    llvm::ExitOnError check;
    Chain foreground;
    foreground.batch = 4;
    foreground.devices = 2;
    foreground.layers = {{1, 1}, {1, 1.5}};
    Problem problem = foreground.problem();
    Pool pool(problem.cluster, 0, 2, Samples(4), Widths::Powers);
    BurstCosts costs(problem, pool);
    std::vector<BurstStage> stages{{{0, 1}, 2}, {{1, 2}, 1}};
    plan = check(makeBurstPlan(costs, stages));
    Program program = check(lower(plan, problem.graph, problem.cluster));
    Chain background;
    background.batch = batch; // passes of 3 s each
    background.layers = {{3.0 / double(batch), 3.0 / double(batch)}};
    Problem copyProblem = background.problem();
    Plan copy = check(planCopy(copyProblem, 0));
    Program copyProgram = check(lower(copy, copyProblem.graph, copyProblem.cluster));
    job = check(packBackground(plan, {copy, copyProgram, program, problem.cluster, 0.2}));
  }
  Plan plan;
  BackgroundJob job;
};

TEST(Background, ThreePassesFitIntoTheGap) {
  ByHand both(1); // a fourth one would delay more than it gives
  ASSERT_DOUBLE_EQ(both.plan.iteration.value(), 14);
  ASSERT_EQ(both.plan.idle.size(), 1u);
  EXPECT_DOUBLE_EQ(both.plan.idle.front().duration.value(), 10);
  ASSERT_EQ(both.job.copies.size(), 1u);
  EXPECT_EQ(both.job.copies.front().device.index, 1);
  EXPECT_DOUBLE_EQ(both.job.rate.value(), 1.5 / 14);
  EXPECT_EQ(both.job.predictedSlowdown, 0);
}

TEST(Background, AFourthPassOutlastsTheGapWhereItPays) {
  ByHand both(8);
  EXPECT_NEAR(both.job.predictedSlowdown, 2.0 / 14, 1e-12);
  EXPECT_DOUBLE_EQ(both.job.rate.value(), 2 * 8 / 16.0);
  EXPECT_DOUBLE_EQ(both.job.clusterThroughput.value(), 4 / 16.0 + 1);
}

struct Mutation {
  const char *name, *check;
  void (*apply)(BackgroundJob &);
};

const Mutation mutations[] = {
    {"a job whose memory does not fit", "background-memory",
     [](BackgroundJob &job) { job.memory = Bytes(1e6); }},
    {"a copy that trains more than its device is idle", "background-idle",
     [](BackgroundJob &job) { job.iteration = job.iteration * 1e6; }},
    {"a copy on a device that the plan does not have", "background-memory",
     [](BackgroundJob &job) { job.copies.front().device.index += 1000; }},
    {"more slow-down than was asked for", "background-slowdown",
     [](BackgroundJob &job) {
       job.maxSlowdown = 0.01;
       job.predictedSlowdown = 0.02;
     }},
    {"rates that do not add up", "background-throughput",
     [](BackgroundJob &job) { job.rate = job.rate * 1.5; }},
    {"another throughput of the cluster", "background-throughput",
     [](BackgroundJob &job) { job.clusterThroughput = job.clusterThroughput * 1.1; }},
};

TEST(Background, ChangedJobsFailTheirChecks) {
  TwoJobs jobs(3);
  BackgroundJob job;
  for (uint64_t seed = 3; job.copies.empty(); ++seed) {
    jobs = TwoJobs(seed);
    job = jobs.pack(0.05);
  }
  ASSERT_EQ(jobs.failures(job), "");
  for (const Mutation &mutation : mutations) {
    BackgroundJob changed = job;
    mutation.apply(changed);
    EXPECT_NE(jobs.failures(changed).find(mutation.check), std::string::npos) << mutation.name;
  }
}

TEST(Background, WithoutRoomThereAreNoCopies) {
  TwoJobs jobs(4);
  jobs.copy.stages.front().memory = Bytes(1e7);
  BackgroundJob job = jobs.pack(0.05);
  EXPECT_TRUE(job.copies.empty());
  EXPECT_EQ(job.rate.value(), 0);
  EXPECT_EQ(job.clusterThroughput.value(), jobs.plan.throughput.value());
  EXPECT_EQ(jobs.failures(job), "");
}
} // namespace
