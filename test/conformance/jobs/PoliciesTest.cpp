// Every line of Policies.def, on the same random workloads.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/JobsChecker.h"
#include "support/RandomJobs.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::JobsChecker;
using heterplan::test::RandomJobs;

namespace {
class EveryPolicy : public testing::TestWithParam<const char *> {
protected:
  jobs::PolicyResult run(const jobs::Problem &problem, uint64_t seed = 0) {
    jobs::PolicyOptions options;
    options.seed = seed;
    options.nodeLimit = 500;
    options.limits.work = 2e4;
    return jobs::makePolicy(GetParam())->run(problem, options);
  }
  bool isOffline() const { return llvm::StringRef(GetParam()) == "offline"; }
  bool isAuto() const { return llvm::StringRef(GetParam()) == "auto"; }
  /// The exact one and those that run others are slower.
  int instances(int all) const { return isOffline() ? all / 10 : isAuto() ? all / 3 : all; }
};

std::vector<const char *> names() {
  std::vector<const char *> result;
  for (const jobs::PolicyInfo &info : jobs::policies())
    result.push_back(info.name);
  return result;
}

std::vector<bool> admitted(const jobs::Schedule &schedule) {
  std::vector<bool> result;
  for (const jobs::JobPlan &plan : schedule)
    result.push_back(plan.isAdmitted());
  return result;
}
} // namespace

TEST_P(EveryPolicy, itsSchedulesHoldEveryRule) {
  int jobs = 0;
  for (int seed = 0; seed < instances(1000); ++seed) {
    RandomJobs random(seed);
    auto problem = random.problem();
    if (!problem) { // a job demands what no node has
      llvm::consumeError(problem.takeError());
      continue;
    }
    jobs::PolicyResult result = run(*problem, seed);
    JobsChecker checker(random.cluster, random.workload);
    std::string wrong = checker.complaints(JobsChecker::rowsOf(*problem, result.schedule),
                                           admitted(result.schedule));
    ASSERT_EQ(wrong, "") << "seed " << seed;
    EXPECT_NEAR(checker.total, totalUtility(*problem, result.schedule), 1e-9 * (1 + checker.total));
    for (const jobs::JobPlan &plan : result.schedule)
      jobs += plan.isAdmitted();
  }
  EXPECT_GT(jobs, instances(300));
}

TEST_P(EveryPolicy, holdsTheRulesOfGangsTypesNodesRestartsDeadlinesAndDependencies) {
  int admittedJobs = 0;
  for (int seed = 2000; seed < 2000 + instances(1000); ++seed) {
    RandomJobs random(seed, {5, 8, 3, true});
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    jobs::PolicyResult result = run(*problem, seed);
    JobsChecker checker(random.cluster, random.workload);
    std::string wrong = checker.complaints(JobsChecker::rowsOf(*problem, result.schedule),
                                           admitted(result.schedule));
    ASSERT_EQ(wrong, "") << "seed " << seed;
    double utility = totalUtility(*problem, result.schedule);
    EXPECT_NEAR(checker.total, utility, 1e-9 * (1 + checker.total));
    EXPECT_LE(utility, jobs::utilityUpperBound(*problem)) << "seed " << seed;
    for (const jobs::JobPlan &plan : result.schedule)
      admittedJobs += plan.isAdmitted();
  }
  EXPECT_GT(admittedJobs, instances(200));
}

TEST_P(EveryPolicy, noneIsWorthMoreThanTheBound) {
  for (int seed = 1000; seed < 1000 + instances(300); ++seed) {
    RandomJobs random(seed);
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    double bound = jobs::utilityUpperBound(*problem);
    EXPECT_TRUE(std::isfinite(bound));
    EXPECT_LE(totalUtility(*problem, run(*problem).schedule), bound) << "seed " << seed;
  }
}

TEST_P(EveryPolicy, sameSeedSameSchedule) {
  for (int seed = 0; seed < instances(50); ++seed) {
    RandomJobs random(seed);
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    jobs::RunFacts facts{GetParam(), 7, 0, false};
    EXPECT_EQ(toJson(*problem, run(*problem, 7).schedule, facts),
              toJson(*problem, run(*problem, 7).schedule, facts));
  }
}

TEST_P(EveryPolicy, runsAJobOfOneWorkerWhoseServersNeedNothing) {
  Cluster cluster;
  DeviceType type;
  type.name = "gpu";
  type.memory = Bytes(16e9);
  cluster.types.push_back(type);
  NodeGroup group;
  group.name = "node";
  group.count = 2;
  group.devices["gpu"] = 1;
  group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
  cluster.nodes.push_back(group);
  cluster.network = group.link;
  jobs::Job job;
  job.name = "one";
  job.samples = 3;
  job.worker = {0, 0, 1};
  job.sampleTime = Seconds(1);
  job.utility.value = 1;
  jobs::Problem problem =
      llvm::cantFail(jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 10, {job}}));
  EXPECT_EQ(makespan(run(problem).schedule), 3);
}

TEST_P(EveryPolicy, noJobsIsASchedule) {
  RandomJobs random(1);
  random.workload.jobs.clear();
  jobs::Problem problem = llvm::cantFail(random.problem());
  jobs::PolicyResult result = run(problem);
  EXPECT_EQ(makespan(result.schedule), 0);
  EXPECT_EQ(totalUtility(problem, result.schedule), 0);
  EXPECT_EQ(jobs::utilityUpperBound(problem), 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn(names()), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});
