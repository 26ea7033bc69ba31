// Small schedules by Z3, from the rules alone: every policy's hold, changed ones do not, and none
// is worth more than the proven optimum or the bound.
#include "search/jobs/UpperBound.h"
#include "search/jobs/online/Online.h"
#include "search/jobs/policy/Policy.h"
#include "support/ChangedRows.h"
#include "support/JobsChecker.h"
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
      auto broken = llvm::cantFail(brokenRules(stated, statedRows(*problem, schedule)));
      EXPECT_EQ(joined(broken), "") << policy << " seed " << seed;
      checked += makespan(schedule) > 0;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(JobsProof, schedulesWithChoicesOfWorkersHold) {
  int checked = 0, larger = 0;
  for (int seed = 7600; seed < 7640; ++seed) { // bench/schedule has a thousand
    RandomJobs random(seed, {5, 8, 3, seed % 2 == 0, true});
    auto problem = problemOf(random);
    if (!problem)
      continue;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    double bound = jobs::utilityUpperBound(*problem);
    for (const char *policy : {"auto", "pd-ors", "oasis", "fifo", "offline"}) {
      jobs::Schedule schedule = run(*problem, policy).schedule;
      std::vector<StatedRow> rows = statedRows(*problem, schedule);
      EXPECT_EQ(joined(llvm::cantFail(brokenRules(stated, rows))), "")
          << policy << " seed " << seed;
      EXPECT_LE(totalUtility(*problem, schedule), bound) << policy << " seed " << seed;
      checked += makespan(schedule) > 0;
      for (const jobs::JobPlan &plan : schedule)
        larger += plan.isAdmitted() && plan.choice > 0;
    }
  }
  EXPECT_GT(checked, 60);
  EXPECT_GT(larger, 8);
}

TEST(JobsProof, noChoiceOfWorkersIsWorthMoreThanTheBound) {
  int tried = 0, reached = 0;
  for (int seed = 7700; seed < 7725; ++seed) {
    RandomJobs random(seed, {2, 3, 2, false, true});
    auto problem = problemOf(random);
    if (!problem)
      continue;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    double bound = jobs::utilityUpperBound(*problem);
    EXPECT_NE(llvm::cantFail(canReach(stated, bound * (1 + 1e-6) + 1e-9)), Truth::Holds)
        << "seed " << seed << " bound " << bound;
    double found = totalUtility(*problem, run(*problem, "auto").schedule);
    if (found <= 0)
      continue;
    ++tried;
    EXPECT_NE(llvm::cantFail(canReach(stated, found * (1 - 1e-9))), Truth::Fails)
        << "seed " << seed;
    reached += llvm::cantFail(canReach(stated, found * 1.01)) == Truth::Fails;
  }
  EXPECT_GT(tried, 4);
  EXPECT_GE(reached, tried * 3 / 4);
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
        joined(llvm::cantFail(brokenRules(statedJobs(cluster, workload), rows)));
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

namespace {
/// Two nodes of four GPUs, and a job of two slots that chooses among workers of one and two GPUs.
struct ChoiceCase {
  ChoiceCase() {
    DeviceType type;
    type.name = "gpu";
    type.deviceClass = DeviceClass::Gpu;
    type.memory = Bytes(16e9);
    stated.cluster.types.push_back(type);
    NodeGroup group;
    group.name = "node";
    group.count = 2;
    group.devices["gpu"] = 4;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    stated.cluster.nodes.push_back(group);
    stated.cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
    stated.slots = 4;
    StatedJobs::Job &job = stated.jobs.emplace_back();
    job.name = "job";
    job.batch = 4;
    job.work = 8;
    job.workersPerServer = 4;
    job.utility = {1, 1, 1, 1};
    job.choices = {{{0, Bytes(0), 1}, {{"gpu", Seconds(1)}}},
                   {{0, Bytes(0), 2}, {{"gpu", Seconds(0.5)}}}};
  }
  std::string broken(const std::vector<StatedRow> &rows) const {
    return joined(llvm::cantFail(brokenRules(stated, rows)));
  }
  StatedJobs stated;
};
} // namespace

TEST(JobsProof, findsFaultsInChoicesOfWorkers) {
  ChoiceCase test;
  EXPECT_EQ(test.broken({{0, 0, "node-0", "", 4, 1, 1}, {0, 1, "node-0", "", 4, 1, 1}}), "");
  EXPECT_EQ(test.broken({{0, 0, "node-0", "", 2, 1, 2}, {0, 1, "node-0", "", 2, 1, 2}}), "");
  // Not twice as many of the larger workers on one node, no worker that is no choice, no mix.
  EXPECT_NE(test.broken({{0, 0, "node-0", "", 4, 1, 2}}).find("capacity of node-0"),
            std::string::npos);
  EXPECT_NE(test.broken({{0, 0, "node-0", "", 1, 1, 4}}).find("GPUs of a worker of job"),
            std::string::npos);
  EXPECT_NE(test.broken({{0, 0, "node-0", "", 4, 1, 1}, {0, 1, "node-0", "", 2, 1, 2}})
                .find("GPUs of a worker of job"),
            std::string::npos);
  EXPECT_NE(test.broken({{0, 0, "node-0", "", 2, 1, 1}, {0, 1, "node-0", "", 2, 1, 1}})
                .find("work of job"),
            std::string::npos);
}

TEST(JobsProof, findsRowsOnNodesThatAreDown) {
  ChoiceCase test;
  std::vector<StatedRow> rows{{0, 0, "node-0", "", 4, 1, 1}, {0, 2, "node-0", "", 4, 1, 1}};
  test.stated.outages = {{"node-0", 1, 1}, {"node-1", 0, 3}};
  EXPECT_EQ(test.broken(rows), ""); // the node is back
  test.stated.outages.push_back({"node-0", 2, 2});
  EXPECT_NE(test.broken(rows).find("capacity of node-0 in slot 2"), std::string::npos);
  test.stated.outages.clear();
  rows.pop_back(); // dropped before its end
  EXPECT_NE(test.broken(rows).find("work of job"), std::string::npos);
  test.stated.jobs.front().mustFinish = false;
  EXPECT_EQ(test.broken(rows), "");
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
        joined(llvm::cantFail(brokenRules(statedJobs(cluster, workload), rows)));
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

namespace {
/// A state that jobs arrive at while nodes go down and come back; its whole schedule as rows.
class OnlineRun {
public:
  explicit OnlineRun(int seed)
      : random(uint64_t(seed), {5, 8, 3, seed % 2 == 0, seed % 3 == 0}), choices(uint64_t(seed)) {
    state.slot = random.workload.slot;
    state.slots = random.workload.slots;
    state.queues = random.workload.queues;
    for (jobs::Job &job : random.workload.jobs) {
      job.preemptible = true; // a node that goes down moves every job
      job.after.clear();
    }
  }

  void run() {
    for (int slot = 0; slot < state.slots; ++slot) {
      llvm::cantFail(jobs::advance(state, slot));
      record(llvm::cantFail(jobs::tryWaiting(state, random.cluster, {})));
      changeNodes();
      for (const jobs::Job &job : random.workload.jobs)
        if (job.arrival == slot)
          record({llvm::cantFail(jobs::arrive(state, random.cluster, job, {}, true))});
    }
  }

  StatedJobs stated() const {
    StatedJobs result = statedJobs(random.cluster, random.workload);
    for (size_t job = 0; job < dropped.size(); ++job)
      result.jobs[job].mustFinish = !dropped[job];
    result.outages = outages;
    return result;
  }

  RandomJobs random;
  std::vector<StatedRow> rows;
  int moves = 0;

private:
  void changeNodes() {
    jobs::Machines machines(random.cluster);
    const std::string &node = machines.nodes()[choices() % machines.nodes().size()].name;
    bool isDown = llvm::is_contained(state.down, node);
    if (choices() % 3 > 0)
      return;
    if (isDown) {
      llvm::cantFail(jobs::nodeUp(state, random.cluster, node));
      for (StatedJobs::Outage &outage : outages)
        if (outage.node == node && outage.last == state.slots)
          outage.last = state.now - 1;
    } else {
      outages.push_back({node, state.now, state.slots});
      record(llvm::cantFail(jobs::nodeDown(state, random.cluster, node, {})));
    }
  }

  void record(const std::vector<jobs::Outcome> &outcomes) {
    dropped.resize(random.workload.jobs.size());
    for (const jobs::Outcome &outcome : outcomes) {
      int index = 0;
      while (random.workload.jobs[index].name != outcome.job)
        ++index;
      llvm::erase_if(
          rows, [&](const StatedRow &row) { return row.job == index && row.slot >= state.now; });
      const jobs::Job &job = random.workload.jobs[index];
      int saved = state.find(job.name);
      int64_t gpus = job.choices.empty() ? 0 : int64_t(state.jobs[saved].job.worker[jobs::Gpu]);
      for (const jobs::SavedRow &row : outcome.rows)
        rows.push_back({index, row.slot, row.node, row.type, row.workers, row.servers, gpus});
      dropped[index] = outcome.status == "dropped";
      moves += outcome.status == "moved";
    }
  }

  jobs::State state;
  std::mt19937_64 choices;
  std::vector<bool> dropped;
  std::vector<StatedJobs::Outage> outages;
};
} // namespace

TEST(JobsProof, onlineSchedulesHoldWhileNodesGoAndComeBack) {
  int checked = 0, moves = 0, broken = 0;
  for (int seed = 7800; seed < 7960; ++seed) {
    OnlineRun online(seed);
    if (!problemOf(online.random))
      continue;
    online.run();
    StatedJobs stated = online.stated();
    EXPECT_EQ(joined(llvm::cantFail(brokenRules(stated, online.rows))), "") << "seed " << seed;
    checked += !online.rows.empty();
    moves += online.moves;
    if (online.rows.empty())
      continue;
    // A node that is down with rows on it is found.
    const StatedRow &row = online.rows.back();
    stated.outages.push_back({row.node, row.slot, row.slot});
    broken += !llvm::cantFail(brokenRules(stated, online.rows)).empty();
  }
  EXPECT_GT(checked, 30);
  EXPECT_GT(moves, 10);
  EXPECT_GT(broken, checked / 2);
}

/// A queue with all jobs and k GPUs on one node is a node of k GPUs.
TEST(JobsProof, aQuotaOfAllJobsOnOneNodeIsASmallerNode) {
  int proven = 0, relaxed = 0;
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
    StatedJobs stated = statedJobs(limited.cluster, limited.workload);
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
    // Z3 knows the quota, too.
    proven += llvm::cantFail(canReach(stated, optimum * (1 + 1e-6) + 1e-9)) == Truth::Fails;
    EXPECT_NE(llvm::cantFail(canReach(stated, optimum * (1 - 1e-9))), Truth::Fails);
    stated.queues.clear(); // and without it more may be possible
    relaxed += llvm::cantFail(canReach(stated, optimum * (1 + 1e-6) + 1e-9)) == Truth::Holds;
  }
  EXPECT_GT(proven, 5);
  EXPECT_GT(relaxed, 2);
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
    auto rules = llvm::cantFail(brokenRules(statedJobs(random.cluster, random.workload), rows));
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
