// Small schedules by Z3, from the rules alone: every policy's hold, changed ones do not, and none
// is worth more than the proven optimum or the bound.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/ChangedRows.h"
#include "support/JobsChecker.h"
#include "support/QuotaProof.h"
#include "support/RandomJobs.h"
#include "support/StatedJobsOf.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
std::string joined(const std::vector<std::string> &rules) {
  std::string text;
  for (const std::string &rule : rules)
    text += rule + "\n";
  return text;
}

jobs::PolicyResult run(const jobs::Problem &problem, const char *policy) {
  jobs::PolicyOptions options;
  options.nodeLimit = 500;
  options.limits.work = 2e4;
  return jobs::makePolicy(policy)->run(problem, options);
}

std::optional<jobs::Problem> problemOf(const RandomJobs &random) {
  auto problem = random.problem();
  if (problem)
    return std::move(*problem);
  llvm::consumeError(problem.takeError()); // a job demands what no node has
  return std::nullopt;
}

} // namespace

TEST(JobsProof, schedulesOfEveryPolicyHold) {
  int checked = 0;
  for (int seed = 7000; seed < 7020; ++seed) {
    RandomJobs random(seed);
    auto problem = problemOf(random);
    if (!problem)
      continue;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    for (const jobs::PolicyInfo &policy : jobs::policies()) {
      jobs::Schedule schedule = run(*problem, policy.name).schedule;
      auto broken = llvm::cantFail(brokenRules(stated, statedRows(*problem, schedule)));
      EXPECT_EQ(joined(broken), "") << policy.name << " seed " << seed;
      checked += !broken.empty() || makespan(schedule) > 0;
    }
  }
  EXPECT_GT(checked, 60);
}

TEST(JobsProof, schedulesWithRulesHold) {
  int checked = 0;
  for (int seed = 7400; seed < 7420; ++seed) {
    RandomJobs random(seed, {5, 8, 3, true});
    auto problem = problemOf(random);
    if (!problem)
      continue;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    for (const char *policy : {"auto", "pd-ors", "srtf", "offline"}) {
      jobs::Schedule schedule = run(*problem, policy).schedule;
      auto broken = brokenRulesAndQuotas(stated, random.workload, statedRows(*problem, schedule));
      EXPECT_EQ(joined(broken), "") << policy << " seed " << seed;
      checked += makespan(schedule) > 0;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(JobsProof, findsEveryRuleThatIsBroken) {
  Cluster cluster;
  DeviceType type;
  type.deviceClass = DeviceClass::Gpu;
  type.memory = Bytes(16e9);
  for (const char *name : {"old", "new"}) {
    type.name = name;
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = name;
    group.count = 2;
    group.devices[name] = 2;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
  jobs::Job job;
  job.name = "first";
  job.samples = 8;
  job.batch = 4;
  job.worker = {0, 0, 1};
  job.workersPerServer = 4;
  job.sampleTime = Seconds(1);
  job.utility.value = 1;
  jobs::Job second = job;
  second.name = "second";
  jobs::Workload workload{Seconds(1), 10, {job, second}};
  // Four slots of two workers; `second` has one server and two workers from slot 4 on.
  auto rowsOf = [](int job, int from, int slots, const char *node, int64_t workers) {
    std::vector<StatedRow> rows;
    for (int slot = from; slot < from + slots; ++slot)
      rows.push_back({job, slot, node, "", workers, 1});
    return rows;
  };
  auto broken = [&](const std::vector<StatedRow> &rows) {
    std::string complaints =
        joined(brokenRulesAndQuotas(statedJobs(cluster, workload), workload, rows));
    std::vector<JobsChecker::Row> plain;
    std::vector<bool> admitted(2);
    for (const StatedRow &row : rows) {
      plain.push_back(
          {row.job, row.slot, row.node, row.type, double(row.workers), double(row.servers)});
      admitted[row.job] = true;
    }
    EXPECT_EQ(complaints.empty(),
              JobsChecker(cluster, workload).complaints(plain, admitted).empty())
        << complaints;
    return complaints;
  };
  std::vector<StatedRow> whole = rowsOf(0, 0, 4, "old-0", 2);
  EXPECT_EQ(broken(whole), "");
  jobs::Job &first = workload.jobs[0];
  first.minWorkers = 3;
  EXPECT_NE(broken(whole).find("workers and servers of first"), std::string::npos);
  first = job;
  first.restart = Seconds(0.5); // of the first slot: a sample is missing
  EXPECT_NE(broken(whole).find("work of first"), std::string::npos);
  EXPECT_EQ(broken(rowsOf(0, 0, 5, "old-0", 2)), "");
  first = job;
  std::vector<StatedRow> mixed{{0, 0, "old-0", "", 2, 1},
                               {0, 0, "new-0", "", 2, 0},
                               {0, 1, "old-0", "", 2, 1},
                               {0, 1, "new-0", "", 2, 0}};
  EXPECT_EQ(broken(mixed), "");
  first.sameType = true;
  EXPECT_NE(broken(mixed).find("device types of first"), std::string::npos);
  first = job;
  first.maxNodes = 1;
  EXPECT_NE(broken(mixed).find("number of nodes of first"), std::string::npos);
  first = job;
  first.preemptible = false;
  EXPECT_EQ(broken(whole), "");
  std::vector<StatedRow> moved = rowsOf(0, 0, 2, "old-0", 2), late = rowsOf(0, 2, 2, "old-1", 2);
  moved.insert(moved.end(), late.begin(), late.end());
  EXPECT_NE(broken(moved).find("move or interruption of first"), std::string::npos);
  std::vector<StatedRow> paused = rowsOf(0, 0, 2, "old-0", 2), rest = rowsOf(0, 3, 2, "old-0", 2);
  paused.insert(paused.end(), rest.begin(), rest.end());
  EXPECT_NE(broken(paused).find("move or interruption of first"), std::string::npos);
  first = job;
  EXPECT_EQ(broken(moved), "");
  first.deadline = jobs::JobDeadline{2, true};
  EXPECT_NE(broken(whole).find("hard deadline of first"), std::string::npos);
  first.deadline->isHard = false;
  EXPECT_EQ(broken(whole), "");
  first = job;
  workload.jobs[1].after = {"first"};
  std::vector<StatedRow> both = whole, next = rowsOf(1, 4, 4, "old-0", 2);
  both.insert(both.end(), next.begin(), next.end());
  EXPECT_EQ(broken(both), "");
  both = whole;
  next = rowsOf(1, 3, 4, "old-1", 2);
  both.insert(both.end(), next.begin(), next.end());
  EXPECT_NE(broken(both).find("before the end of first"), std::string::npos);
}

TEST(JobsProof, findsEveryQuotaThatIsBroken) {
  Cluster cluster;
  for (const char *name : {"old", "new"}) {
    DeviceType type;
    type.name = name;
    type.deviceClass = DeviceClass::Gpu;
    type.memory = Bytes(16e9);
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = name;
    group.devices[name] = 4;
    group.host = {8, Bytes(64e9)};
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
  jobs::Job job;
  job.samples = 4;
  job.batch = 4;
  job.worker = {1000, 2e9, 1};
  job.workersPerServer = 4;
  job.sampleTime = Seconds(1);
  job.utility.value = 1;
  jobs::Workload workload{Seconds(1), 4, {}};
  for (const char *name : {"a", "b"}) {
    job.name = name;
    job.queue = std::string("of ") + name;
    workload.jobs.push_back(job);
    workload.queues.emplace_back().name = job.queue;
  }
  std::vector<StatedRow> rows{{0, 0, "old", "", 4, 1}, {1, 0, "new", "", 4, 1}};
  auto broken = [&] {
    std::string complaints =
        joined(brokenRulesAndQuotas(statedJobs(cluster, workload), workload, rows));
    std::vector<JobsChecker::Row> plain;
    for (const StatedRow &row : rows)
      plain.push_back(
          {row.job, row.slot, row.node, row.type, double(row.workers), double(row.servers)});
    EXPECT_EQ(complaints.empty(),
              JobsChecker(cluster, workload).complaints(plain, {true, true}).empty())
        << complaints;
    return complaints;
  };
  jobs::Queue &a = workload.queues[0], &b = workload.queues[1];
  EXPECT_EQ(broken(), "");
  a.quota.all[jobs::Gpu] = 3;
  EXPECT_NE(broken().find("gpu of queue of a"), std::string::npos);
  a.quota = {};
  a.quota.gpus["new"] = 0; // the job is on the other type
  EXPECT_EQ(broken(), "");
  a.quota.gpus["old"] = 3;
  EXPECT_NE(broken().find("type old of queue of a"), std::string::npos);
  a.quota = {};
  a.quota.all[jobs::Cpu] = 3500;
  EXPECT_NE(broken().find("cpu of queue of a"), std::string::npos);
  a.quota = {};
  a.quota.all[jobs::Memory] = 7e9;
  EXPECT_NE(broken().find("memory of queue of a"), std::string::npos);
  a.quota = {};
  a.share = 0.9; // 3 of the 4 GPUs of each type
  EXPECT_NE(broken().find("type old of queue of a"), std::string::npos);
  a.share.reset();
  a.quota.all[jobs::Gpu] = 3;
  a.cohort = "all"; // nothing to borrow: nobody lends
  EXPECT_NE(broken().find("gpu of cohort all"), std::string::npos);
  b.cohort = "all";
  b.quota.all[jobs::Gpu] = 5;
  EXPECT_EQ(broken(), "");
  a.borrow.all[jobs::Gpu] = 0;
  EXPECT_NE(broken().find("gpu of queue of a"), std::string::npos);
  a.borrow.all[jobs::Gpu] = 1;
  EXPECT_EQ(broken(), "");
  b.quota.all[jobs::Gpu] = 4;
  EXPECT_NE(broken().find("gpu of cohort all"), std::string::npos);
}

/// A queue with all jobs and k GPUs on one node is a node of k GPUs.
TEST(JobsProof, aQuotaOfAllJobsOnOneNodeIsASmallerNode) {
  int proven = 0;
  for (int seed = 7500; seed < 7520; ++seed) {
    RandomJobs random(seed, {3, 3, 1, false});
    NodeGroup &node = random.cluster.nodes.front();
    node.count = 1;
    node.devices = {{"new", 4}};
    node.host = {64, Bytes(512e9)};
    int quota = 1 + seed % 3;
    RandomJobs limited = random;
    limited.workload.queues.emplace_back().name = "all";
    if (seed % 2)
      limited.workload.queues.front().quota.gpus["new"] = quota;
    else
      limited.workload.queues.front().quota.all[jobs::Gpu] = quota;
    for (jobs::Job &job : limited.workload.jobs)
      job.queue = "all";
    random.cluster.nodes.front().devices["new"] = quota;
    auto smaller = problemOf(random), problem = problemOf(limited);
    if (!smaller || !problem)
      continue;
    jobs::PolicyResult best = run(*problem, "offline"), same = run(*smaller, "offline");
    if (!best.optimal || !same.optimal)
      continue;
    double optimum = totalUtility(*problem, best.schedule);
    EXPECT_NEAR(optimum, totalUtility(*smaller, same.schedule), 1e-6) << "seed " << seed;
    EXPECT_GE(jobs::utilityUpperBound(*problem), optimum);
    EXPECT_LE(jobs::utilityUpperBound(*problem), jobs::utilityUpperBound(*smaller) * 1.02 + 1e-6);
    proven += llvm::cantFail(canReach(statedJobs(random.cluster, random.workload),
                                      optimum * (1 + 1e-6) + 1e-9)) == Truth::Fails;
  }
  EXPECT_GT(proven, 5);
}

TEST(JobsProof, agreesWithPlainArithmeticOnChangedSchedules) {
  int broken = 0, held = 0;
  for (int seed = 7100; seed < 7240; ++seed) {
    RandomJobs random(seed, {5, 8, 3, seed >= 7200});
    auto problem = problemOf(random);
    if (!problem)
      continue;
    std::mt19937_64 choices(seed);
    std::vector<StatedRow> rows = statedRows(*problem, run(*problem, "pd-ors").schedule);
    if (rows.empty())
      continue;
    rows = changedRows(rows, choices);
    std::vector<JobsChecker::Row> plain;
    std::vector<bool> admitted(problem->size());
    for (const StatedRow &row : rows) {
      plain.push_back(
          {row.job, row.slot, row.node, row.type, double(row.workers), double(row.servers)});
      admitted[row.job] = true;
    }
    JobsChecker checker(random.cluster, random.workload);
    std::string complaints = checker.complaints(plain, admitted);
    auto rules =
        brokenRulesAndQuotas(statedJobs(random.cluster, random.workload), random.workload, rows);
    EXPECT_EQ(rules.empty(), complaints.empty()) << "seed " << seed << "\n"
                                                 << joined(rules) << complaints;
    (rules.empty() ? held : broken) += 1;
  }
  EXPECT_GT(broken, 30);
  EXPECT_GT(held, 3);
}

TEST(JobsProof, noScheduleIsWorthMoreThanTheOptimum) {
  int proven = 0, tried = 0;
  for (int seed = 7300; seed < 7335; ++seed) {
    RandomJobs random(seed, {2, 3, 2, seed >= 7320});
    random.workload.queues.clear(); // canReach() does not know them
    for (jobs::Job &job : random.workload.jobs)
      job.queue.clear();
    auto problem = problemOf(random);
    if (!problem)
      continue;
    jobs::PolicyResult best = run(*problem, "offline");
    double optimum = totalUtility(*problem, best.schedule);
    if (!best.optimal)
      continue;
    ++tried;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    EXPECT_NE(llvm::cantFail(canReach(stated, optimum * (1 - 1e-9))), Truth::Fails)
        << "seed " << seed;
    Truth better = llvm::cantFail(canReach(stated, optimum * (1 + 1e-6) + 1e-9));
    EXPECT_NE(better, Truth::Holds) << "seed " << seed << " optimum " << optimum;
    proven += better == Truth::Fails;
    double bound = jobs::utilityUpperBound(*problem);
    EXPECT_NE(llvm::cantFail(canReach(stated, bound * (1 + 1e-6) + 1e-9)), Truth::Holds)
        << "seed " << seed << " bound " << bound;
  }
  EXPECT_GT(tried, 5);
  EXPECT_GE(proven, tried * 3 / 4);
}
