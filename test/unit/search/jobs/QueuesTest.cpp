// Quotas of queues, whose limits and shares are worked out by hand.
#include "Fixture.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/read/JobsReader.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
jobs::Queue queueOf(const char *name, double gpus, const char *cohort = "") {
  jobs::Queue queue;
  queue.name = name;
  queue.quota.all[jobs::Gpu] = gpus;
  queue.cohort = cohort;
  return queue;
}

/// `workers` of a GPU each at most, for `slots` slots with all of them.
jobs::Job jobIn(const char *queue, const char *name, int64_t workers, int slots) {
  jobs::Job job = jobOnTypes(name, workers * slots, {{"new", 1}});
  job.batch = workers;
  job.queue = queue;
  return job;
}

jobs::Problem problemWith(const Cluster &cluster, std::vector<jobs::Job> all,
                          std::vector<jobs::Queue> queues) {
  return llvm::cantFail(jobs::Problem::create(jobs::Machines(cluster),
                                              {Seconds(1), 40, std::move(all), std::move(queues)}));
}

int64_t workersIn(const jobs::Schedule &schedule, int job, int slot) {
  int64_t sum = 0;
  if (auto entry = schedule[job].slots.find(slot); entry != schedule[job].slots.end())
    for (const jobs::Row &row : entry->second)
      sum += row.workers;
  return sum;
}

std::string errorOf(std::vector<jobs::Job> all, std::vector<jobs::Queue> queues) {
  Cluster cluster = gpusOf({{"new", 4}});
  auto problem = jobs::Problem::create(jobs::Machines(cluster),
                                       {Seconds(1), 40, std::move(all), std::move(queues)});
  return problem ? "" : toText(problem.takeError());
}
} // namespace

TEST(Queues, AQuotaLimitsEveryPolicyAndTheBound) {
  Cluster cluster = gpusOf({{"new", 4}});
  for (const jobs::PolicyInfo &policy : jobs::policies()) {
    if (llvm::StringRef(policy.name) == "oasis")
      continue; // spreads workers and servers over nodes; there is one
    jobs::Problem problem =
        problemWith(cluster, {jobIn("a", "one", 4, 3), jobIn("a", "two", 4, 3)}, {queueOf("a", 2)});
    jobs::Schedule schedule = jobs::makePolicy(policy.name)->run(problem, {}).schedule;
    EXPECT_EQ(makespan(schedule), 12) << policy.name; // 24 samples by 2 workers
    for (int slot = 0; slot < 12; ++slot)
      EXPECT_LE(workersIn(schedule, 0, slot) + workersIn(schedule, 1, slot), 2) << policy.name;
  }
  jobs::Job late = jobIn("a", "late", 4, 3);
  late.utility = {jobs::Utility::Kind::Deadline, 10, 0, 0, 4}; // 12 samples need 6 slots
  jobs::Problem problem = problemWith(cluster, {late}, {queueOf("a", 2)});
  EXPECT_EQ(jobs::utilityUpperBound(problem), 0);
  late.utility.deadline = 5;
  EXPECT_NEAR(jobs::utilityUpperBound(problemWith(cluster, {late}, {queueOf("a", 2)})), 10, 1e-6);
}

TEST(Queues, AQuotaOfATypeLeavesOtherTypesFree) {
  Cluster cluster = gpusOf({{"new", 2}, {"old", 2}});
  jobs::Job job = jobOnTypes("job", 4, {{"new", 2}, {"old", 1}});
  job.batch = 2;
  job.queue = "a";
  jobs::Queue queue;
  queue.name = "a";
  queue.quota.gpus["new"] = 0;
  jobs::Problem problem = problemWith(cluster, {job}, {queue});
  jobs::Schedule schedule = jobs::makePolicy("fifo")->run(problem, {}).schedule;
  EXPECT_EQ(makespan(schedule), 2); // two old ones
}

TEST(Queues, AShareIsRoundedDownForEachType) {
  Cluster cluster = gpusOf({{"new", 5}, {"old", 3}});
  jobs::Queue queue;
  queue.name = "a";
  queue.share = 0.4;
  jobs::Problem problem = problemWith(cluster, {}, {queue});
  std::map<int, double> amounts;
  for (const jobs::Quota &quota : problem.quotas())
    if (quota.resource == jobs::Gpu)
      amounts[quota.gpuType] = quota.amount;
  EXPECT_EQ(amounts, (std::map<int, double>{{0, 2}, {1, 1}}));
}

TEST(Queues, AQueueBorrowsOnlyWithinItsCohort) {
  Cluster cluster = gpusOf({{"new", 4}});
  for (const char *cohort : {"", "lab"}) {
    jobs::Problem problem = problemWith(cluster, {jobIn("a", "one", 4, 3)},
                                        {queueOf("a", 1, cohort), queueOf("b", 2, cohort)});
    jobs::Schedule schedule = jobs::makePolicy("fifo")->run(problem, {}).schedule;
    EXPECT_EQ(workersIn(schedule, 0, 0), *cohort ? 3 : 1); // the GPU of nobody stays idle
  }
  jobs::Queue limited = queueOf("a", 1, "lab");
  limited.borrow.all[jobs::Gpu] = 1;
  jobs::Problem problem =
      problemWith(cluster, {jobIn("a", "one", 4, 3)}, {limited, queueOf("b", 2, "lab")});
  EXPECT_EQ(workersIn(jobs::makePolicy("fifo")->run(problem, {}).schedule, 0, 0), 2);
}

TEST(FairShare, AQueueGetsItsQuotaBackFromOneThatBorrows) {
  Cluster cluster = gpusOf({{"new", 4}});
  jobs::Job late = jobIn("b", "late", 2, 3);
  late.arrival = 2;
  jobs::Problem problem = problemWith(cluster, {jobIn("a", "early", 4, 6), late},
                                      {queueOf("a", 2, "lab"), queueOf("b", 2, "lab")});
  jobs::Schedule fair = jobs::makePolicy("fair-share")->run(problem, {}).schedule;
  EXPECT_EQ(workersIn(fair, 0, 1), 4); // borrows
  EXPECT_EQ(workersIn(fair, 0, 2), 2);
  EXPECT_EQ(workersIn(fair, 1, 2), 2);
  EXPECT_EQ(workersIn(fair, 0, 5), 4); // `late` has ended
  jobs::Schedule fifo = jobs::makePolicy("fifo")->run(problem, {}).schedule;
  EXPECT_EQ(workersIn(fifo, 1, 2), 0);
}

TEST(FairShare, IdleQuotaGoesToQueuesByTheirWeights) {
  Cluster cluster = gpusOf({{"new", 8}});
  std::vector<jobs::Queue> queues{queueOf("a", 1, "lab"), queueOf("b", 1, "lab"),
                                  queueOf("idle", 6, "lab")};
  queues[1].weight = 3;
  jobs::Problem problem =
      problemWith(cluster, {jobIn("a", "one", 8, 9), jobIn("b", "two", 8, 9)}, queues);
  jobs::Schedule schedule = jobs::makePolicy("fair-share")->run(problem, {}).schedule;
  EXPECT_EQ(workersIn(schedule, 0, 0), 2);
  EXPECT_EQ(workersIn(schedule, 1, 0), 6);
}

TEST(Queues, QueuesThatAreUnknownOrMissingAreRefused) {
  EXPECT_NE(errorOf({jobIn("serach", "one", 1, 1)}, {queueOf("search", 1)})
                .find("'serach', is not declared; did you mean 'search'?"),
            std::string::npos);
  EXPECT_NE(
      errorOf({jobIn("", "one", 1, 1)}, {queueOf("a", 1)}).find("[HP1004] job 'one' lacks 'queue'"),
      std::string::npos);
  EXPECT_NE(errorOf({}, {queueOf("a", 1), queueOf("a", 1)}).find("two queues are called 'a'"),
            std::string::npos);
  jobs::Queue queue = queueOf("a", 1);
  queue.quota.gpus["h100"] = 1;
  EXPECT_NE(errorOf({}, {queue}).find("'h100', which is no GPU type of the cluster"),
            std::string::npos);
}

TEST(Queues, TheReaderKnowsEveryFieldAndRefusesContradictions) {
  auto read = [](const std::string &queues) {
    return jobs::parseWorkload("slot: 1s\nslots: 1\nqueues:\n" + queues + "jobs: []\n",
                               "jobs.yaml");
  };
  auto errorOf = [&](const std::string &queues) {
    auto workload = read(queues);
    return workload ? "" : toText(workload.takeError());
  };
  jobs::Workload workload = llvm::cantFail(
      read("- {name: a, quota: {gpu: 8, a100: 4, cpu: 2.5, memory: 1GiB}, cohort: lab,\n"
           "   borrow: {gpu: 2}, weight: 2}\n- {name: b, share: 0.25}\n"));
  ASSERT_EQ(workload.queues.size(), 2u);
  jobs::Queue expected = queueOf("a", 8, "lab");
  expected.quota.gpus["a100"] = 4;
  expected.quota.all[jobs::Cpu] = 2500;
  expected.quota.all[jobs::Memory] = 1024.0 * 1024 * 1024;
  expected.borrow.all[jobs::Gpu] = 2;
  expected.weight = 2;
  EXPECT_EQ(workload.queues[0], expected);
  EXPECT_EQ(workload.queues[1].share, 0.25);
  for (auto [text, place, what] :
       {std::tuple("- {name: a}\n", "4:3", "neither quota nor share"),
        {"- {name: a, share: 1, quota: {gpu: 1}}\n", "4:3", "a quota and a share"},
        {"- {name: a, share: 1.5}\n", "4:20", "share of queue 'a'"},
        {"- {name: a, share: 0}\n", "4:20", "is 0"},
        {"- {name: a, share: 1, weight: 0}\n", "4:31", "weight of queue 'a' is 0"},
        {"- {name: a, quota: {}}\n", "4:20", "has no resource"},
        {"- {name: a, quota: 8}\n", "4:20", "must be a mapping"},
        {"- {name: a, quota: {gpu: 0.5}}\n", "4:26", "must be a whole number"},
        {"- {name: a, quota: {gpu: 1}, borrow: {gpu: 1}}\n", "4:3", "no cohort"},
        {"- {name: a, quota: {gpu: 1}, cohort: c, borrow: {cpu: 1}}\n", "4:3", "no quota"}}) {
    std::string error = errorOf(text);
    EXPECT_EQ(error.find(std::string("jobs.yaml:") + place), 0u) << error;
    EXPECT_NE(error.find(what), std::string::npos) << error;
  }
}
