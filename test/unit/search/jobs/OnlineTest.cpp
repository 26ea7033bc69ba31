#include "Fixture.h"

#include "search/jobs/online/Online.h"
#include "support/DurableFile.h"
#include "support/Files.h"
#include "support/RandomJobs.h"

#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
jobs::State emptyState(int slots = 20) {
  jobs::State state;
  state.slot = Seconds(10);
  state.slots = slots;
  return state;
}

std::string errorOf(const std::string &text) {
  auto state = jobs::parseState(text, "state.json");
  return state ? "" : toText(state.takeError());
}

jobs::State withTwoJobs(const Cluster &cluster) {
  jobs::State state = emptyState();
  for (const char *name : {"a", "b"}) {
    jobs::Job job = gpuJob(name);
    job.utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 15};
    llvm::cantFail(jobs::arrive(state, cluster, job, {}));
  }
  return state;
}
} // namespace

TEST(JobsState, printingThenReadingIsTheIdentity) {
  for (int seed = 0; seed < 200; ++seed) {
    RandomJobs random(seed, {5, 8, 3, seed % 2 == 1});
    if (auto problem = random.problem(); !problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    jobs::State state = emptyState(random.workload.slots);
    state.slot = random.workload.slot;
    state.queues = random.workload.queues;
    for (const jobs::Job &job : random.workload.jobs)
      llvm::cantFail(jobs::arrive(state, random.cluster, job, {}));
    std::string text = toJson(state);
    jobs::State again = llvm::cantFail(jobs::parseState(text, "state.json"));
    EXPECT_EQ(toJson(again), text) << "seed " << seed;
    EXPECT_FALSE(bool(verify(again, random.cluster)));
  }
}

TEST(JobsState, keepsModelsPlansAndOpenChoices) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = emptyState();
  jobs::Job job = gpuJob("a");
  job.model = "/models/a.onnx";
  job.choices = {{{0, 0, 2}, {{"gpu", Seconds(1)}}, {{{"gpu", {"1f1b", 2, Seconds(9)}}}}},
                 {{0, 0, 1}, {{"gpu", Seconds(1)}}, {}}};
  job.choose(0);
  job.utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 15};
  jobs::Outcome outcome = llvm::cantFail(jobs::arrive(state, cluster, job, {}));
  ASSERT_EQ(outcome.status, "admitted");
  EXPECT_EQ(state.jobs[0].job.worker[jobs::Gpu], 1); // as fast with half of the GPUs
  EXPECT_TRUE(state.jobs[0].job.choices.empty());    // it is made
  job.name = "waits";
  job.samples = 1'000'000; // but what could end it may come
  llvm::cantFail(jobs::arrive(state, cluster, job, {}, true));
  ASSERT_EQ(state.jobs[1].status, "waiting");
  std::string text = toJson(state);
  jobs::State again = llvm::cantFail(jobs::parseState(text, "state.json"));
  EXPECT_EQ(toJson(again), text);
  EXPECT_EQ(again.jobs[0].job.model, "/models/a.onnx");
  ASSERT_EQ(again.jobs[1].job.choices.size(), 2u);
  EXPECT_EQ(again.jobs[1].job.choices[0].plans->at("gpu").stages, 2);
  EXPECT_EQ(again.jobs[1].job.choices[1].worker[jobs::Gpu], 1);
}

TEST(JobsState, anyChangeIsRefused) {
  Cluster cluster = twoGpuNodes();
  std::string text = toJson(withTwoJobs(cluster));
  EXPECT_EQ(errorOf(text), "");
  for (size_t at = 0; at < text.size(); at += 7) {
    std::string changed = text;
    changed[at] ^= 1;
    EXPECT_NE(errorOf(changed), "") << "byte " << at;
    EXPECT_NE(errorOf(text.substr(0, at)), "") << "cut at " << at;
  }
  EXPECT_NE(errorOf("{}").find("[HP1520]"), std::string::npos);
}

TEST(JobsState, rowsBeyondTheCapacitiesAreRefused) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  ASSERT_FALSE(state.jobs[0].rows.empty());
  state.jobs[0].rows[0].workers += 100;
  std::string error = toText(verify(state, cluster));
  EXPECT_NE(error.find("[HP1520] the rows of slot"), std::string::npos) << error;
  state.jobs[0].rows[0].node = "gone";
  error = toText(verify(state, cluster));
  EXPECT_NE(error.find("[HP1523]"), std::string::npos) << error;
}

TEST(JobsOnline, aNameArrivesOnce) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  auto again = jobs::arrive(state, cluster, gpuJob("a"), {});
  ASSERT_FALSE(again);
  EXPECT_NE(toText(again.takeError()).find("[HP1103]"), std::string::npos);
  EXPECT_EQ(state.jobs.size(), 2u);
}

TEST(JobsOnline, completingFreesWhatWasHeld) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  llvm::cantFail(jobs::advance(state, 1));
  jobs::Outcome outcome = llvm::cantFail(jobs::complete(state, "a"));
  EXPECT_EQ(outcome.status, "completed");
  for (const jobs::SavedRow &row : state.jobs[0].rows)
    EXPECT_LT(row.slot, 1);
  auto again = jobs::complete(state, "a");
  ASSERT_FALSE(again);
  EXPECT_NE(toText(again.takeError()).find("[HP1522]"), std::string::npos);
  auto unknown = jobs::complete(state, "z");
  ASSERT_FALSE(unknown);
  EXPECT_NE(toText(unknown.takeError()).find("no job 'z'"), std::string::npos);
}

TEST(JobsOnline, jobsLeaveANodeThatIsDown) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  std::string node = state.jobs[0].rows.back().node;
  llvm::cantFail(jobs::advance(state, 1));
  std::vector<jobs::Outcome> outcomes = llvm::cantFail(jobs::nodeDown(state, cluster, node, {}));
  EXPECT_FALSE(outcomes.empty());
  for (const jobs::Outcome &outcome : outcomes) {
    EXPECT_EQ(outcome.status, "moved");
    EXPECT_FALSE(outcome.rows.empty());
  }
  for (const jobs::SavedJob &saved : state.jobs)
    for (const jobs::SavedRow &row : saved.rows)
      EXPECT_FALSE(row.node == node && row.slot >= 1);
  EXPECT_FALSE(bool(verify(state, cluster)));
  auto unknown = jobs::nodeDown(state, cluster, "gone", {});
  ASSERT_FALSE(unknown);
  llvm::consumeError(unknown.takeError());
}

TEST(JobsOnline, aNodeMayBeReportedDownTwice) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  std::string node = state.jobs[0].rows.front().node;
  EXPECT_FALSE(llvm::cantFail(jobs::nodeDown(state, cluster, node, {})).empty());
  std::string once = toJson(state);
  EXPECT_TRUE(llvm::cantFail(jobs::nodeDown(state, cluster, node, {})).empty());
  EXPECT_EQ(toJson(state), once);
}

TEST(JobsOnline, serversThatNeedNothingAreWithTheWorkers) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = emptyState();
  jobs::Job job = gpuJob("a");
  job.server = {};
  job.workersPerServer = 10;
  job.gradient = Bytes(0);
  ASSERT_EQ(llvm::cantFail(jobs::arrive(state, cluster, job, {})).status, "admitted");
  auto check = [&] {
    std::map<int, int64_t> servers;
    for (const jobs::SavedRow &row : state.jobs[0].rows) {
      EXPECT_GT(row.workers, 0) << row.node;
      servers[row.slot] += row.servers;
    }
    for (auto [slot, count] : servers)
      EXPECT_EQ(count, 1) << slot;
  };
  check();
  llvm::cantFail(jobs::nodeDown(state, cluster, "gpu-0", {}));
  check();
  for (const jobs::SavedRow &row : state.jobs[0].rows)
    EXPECT_NE(row.node, "gpu-0");
}

TEST(JobsOnline, jobsThatFitNowhereElseAreDropped) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  llvm::cantFail(jobs::nodeDown(state, cluster, "gpu-0", {}));
  llvm::cantFail(jobs::nodeDown(state, cluster, "gpu-1", {}));
  for (const jobs::SavedJob &saved : state.jobs)
    EXPECT_EQ(saved.status, "dropped");
}

TEST(JobsOnline, aJobThatWaitsForAMovedJobStartsAfterItsNewEnd) {
  Cluster cluster = twoGpuNodes();
  int moved = 0;
  for (const char *node : {"gpu-0", "gpu-1"}) {
    jobs::State state = emptyState(60);
    jobs::Job first = gpuJob("first"), second = gpuJob("second");
    second.after = {"first"};
    for (const jobs::Job &job : {first, second})
      llvm::cantFail(jobs::arrive(state, cluster, job, {}));
    llvm::cantFail(jobs::advance(state, 1));
    moved += int(llvm::cantFail(jobs::nodeDown(state, cluster, node, {})).size());
    int end = state.jobs[0].rows.back().slot;
    ASSERT_EQ(state.jobs[1].status, "admitted");
    EXPECT_GT(state.jobs[1].rows.front().slot, end) << node;
  }
  EXPECT_GT(moved, 0);
}

TEST(JobsOnline, aJobThatWaitsForADroppedJobIsDropped) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = emptyState(60);
  jobs::Job first = gpuJob("first"), second = gpuJob("second");
  second.after = {"first"};
  second.worker = {1000, 0, 0}; // on cores, which stay
  for (const jobs::Job &job : {first, second})
    llvm::cantFail(jobs::arrive(state, cluster, job, {}));
  llvm::cantFail(jobs::nodeDown(state, cluster, "gpu-0", {}));
  llvm::cantFail(jobs::nodeDown(state, cluster, "gpu-1", {}));
  for (const jobs::SavedJob &saved : state.jobs) {
    EXPECT_EQ(saved.status, "dropped");
    EXPECT_TRUE(saved.rows.empty());
  }
}

TEST(JobsOnline, TheStateDoesNotGrowWithJobsThatEnded) {
  Cluster cluster = twoGpuNodes();
  constexpr int arrivals = 2 * int(jobs::mostEnded);
  jobs::State state = emptyState(arrivals + 30);
  size_t early = 0, admitted = 0;
  for (int i = 0; i < arrivals; ++i) {
    jobs::Job job = gpuJob("x");
    job.name = "job-" + std::to_string(10000 + i);
    job.samples = 20;
    job.utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 15};
    if (i % 2)
      job.after = {"job-" + std::to_string(10000 + i - 1)};
    llvm::cantFail(jobs::advance(state, i));
    admitted += llvm::cantFail(jobs::arrive(state, cluster, job, {})).status == "admitted";
    if (i == 3 * arrivals / 4)
      early = toJson(state).size();
  }
  EXPECT_GT(admitted, size_t(arrivals) / 2);
  EXPECT_LE(state.ended.size(), jobs::mostEnded);
  EXPECT_LT(state.jobs.size(), 40u);
  EXPECT_LT(double(toJson(state).size()), 1.1 * double(early));
  EXPECT_FALSE(bool(verify(state, cluster)));
  EXPECT_EQ(errorOf(toJson(state)), "");
}

TEST(JobsOnline, AJobThatEndedMayStillBeCompletedOnce) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = withTwoJobs(cluster);
  llvm::cantFail(jobs::advance(state, 19));
  ASSERT_TRUE(state.findEnded("a"));
  EXPECT_EQ(llvm::cantFail(jobs::complete(state, "a")).status, "completed");
  auto again = jobs::complete(state, "a");
  ASSERT_FALSE(again);
  EXPECT_NE(toText(again.takeError()).find("no running job 'a'"), std::string::npos);
  auto twice = jobs::arrive(state, cluster, gpuJob("a"), {});
  ASSERT_FALSE(twice);
  EXPECT_NE(toText(twice.takeError()).find("[HP1103]"), std::string::npos);
}

TEST(JobsOnline, AJobThatWaitsRunsOnceThereIsRoom) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = emptyState();
  jobs::Job first = gpuJob("first"), second = gpuJob("second"), third = gpuJob("third");
  first.gradient = Bytes(0);
  first.samples = 700; // 18 of 20 slots of all GPUs
  third.after = {"second"};
  third.samples = 10;
  auto arrive = [&](const jobs::Job &job) {
    return llvm::cantFail(jobs::arrive(state, cluster, job, {}, true)).status;
  };
  ASSERT_EQ(arrive(first), "admitted");
  EXPECT_EQ(arrive(second), "waiting");
  EXPECT_EQ(arrive(third), "waiting"); // with the job before it
  EXPECT_TRUE(llvm::cantFail(jobs::tryWaiting(state, cluster, {})).empty());
  jobs::State again = llvm::cantFail(jobs::parseState(toJson(state), "state.json"));
  EXPECT_EQ(toJson(again), toJson(state));
  llvm::cantFail(jobs::advance(state, 3));
  llvm::cantFail(jobs::complete(state, "first"));
  std::vector<jobs::Outcome> outcomes = llvm::cantFail(jobs::tryWaiting(state, cluster, {}));
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].job, "second");
  EXPECT_EQ(outcomes[0].status, "admitted");
  EXPECT_EQ(outcomes[1].status, "admitted");
  EXPECT_GE(outcomes[0].rows.front().slot, 3);
  EXPECT_GT(outcomes[1].rows.front().slot, outcomes[0].rows.back().slot);
  EXPECT_FALSE(bool(verify(state, cluster)));
}

TEST(JobsOnline, AJobThatCannotBeWorthAnythingMoreIsDeclined) {
  Cluster cluster = twoGpuNodes();
  jobs::State state = emptyState();
  jobs::Job first = gpuJob("first"), second = gpuJob("second"), third = gpuJob("third");
  first.gradient = Bytes(0);
  first.samples = 700;
  second.utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 3};
  third.after = {"second"};
  for (const jobs::Job &job : {first, second, third})
    llvm::cantFail(jobs::arrive(state, cluster, job, {}, true));
  llvm::cantFail(jobs::advance(state, 1));
  EXPECT_TRUE(llvm::cantFail(jobs::tryWaiting(state, cluster, {})).empty());
  llvm::cantFail(jobs::advance(state, 2));
  std::vector<jobs::Outcome> outcomes = llvm::cantFail(jobs::tryWaiting(state, cluster, {}));
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].status, "declined");
  EXPECT_EQ(outcomes[1].status, "declined"); // it waits in vain
  EXPECT_EQ(llvm::cantFail(jobs::arrive(state, cluster, gpuJob("fourth"), {}, true)).status,
            "waiting");
  EXPECT_EQ(llvm::cantFail(jobs::complete(state, "fourth")).status, "completed");
  EXPECT_TRUE(llvm::cantFail(jobs::tryWaiting(state, cluster, {})).empty());
}

TEST(JobsOnline, timeDoesNotGoBack) {
  jobs::State state = emptyState();
  llvm::cantFail(jobs::advance(state, 5));
  EXPECT_NE(toText(jobs::advance(state, 4)).find("[HP1521]"), std::string::npos);
}

TEST(DurableFile, replacesAndLocks) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("heterplan-durable", folder));
  std::string path = (folder + "/state").str();
  EXPECT_FALSE(bool(writeDurably(path, "one")));
  EXPECT_FALSE(bool(writeDurably(path, "two")));
  EXPECT_EQ(llvm::cantFail(readFile(path)), "two");
  EXPECT_TRUE(bool(FileLock::take(path + ".lock", Seconds(0))));
  llvm::Error error = writeDurably((folder + "/none/state").str(), "x");
  EXPECT_NE(toText(std::move(error)).find("[HP1002]"), std::string::npos);
  llvm::sys::fs::remove_directories(folder);
}
