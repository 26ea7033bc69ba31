#include "search/jobs/policy/Policy.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// A node of each type, with one GPU.
Cluster oneGpuOf(const std::vector<std::string> &names) {
  Cluster cluster;
  for (const std::string &name : names) {
    DeviceType type;
    type.name = name;
    type.memory = Bytes(16e9);
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = name;
    group.devices[name] = 1;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
  return cluster;
}

/// `samples` a slot of a second on each type.
jobs::Job jobOf(const char *name, int64_t work, const std::map<std::string, double> &samples) {
  jobs::Job job;
  job.name = name;
  job.samples = work;
  job.worker = {0, 0, 1};
  for (const auto &[type, each] : samples)
    job.sampleTimes[type] = Seconds(1 / each);
  job.utility.value = 1;
  return job;
}

struct GavelRun {
  GavelRun(const Cluster &cluster, std::vector<jobs::Job> all)
      : problem(llvm::cantFail(
            jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 40, std::move(all)}))),
        schedule(jobs::makePolicy("gavel")->run(problem, {}).schedule) {}

  std::string typeIn(int job, int slot) const {
    const jobs::Machines &machines = problem.machines();
    return machines.nodes()[machines.sites()[schedule[job].slots.at(slot).front().site].node].name;
  }

  jobs::Problem problem;
  jobs::Schedule schedule;
};
} // namespace

TEST(Gavel, GivesEachJobTheTypeOnWhichItGainsMost) {
  Cluster cluster = oneGpuOf({"new", "old"});
  GavelRun run(cluster, {jobOf("a", 12, {{"new", 1}, {"old", 2}}),
                         jobOf("b", 18, {{"new", 3}, {"old", 1}})});
  for (int slot = 0; slot < 6; ++slot) {
    EXPECT_EQ(run.typeIn(0, slot), "old") << slot;
    EXPECT_EQ(run.typeIn(1, slot), "new") << slot;
  }
}

TEST(Gavel, EqualJobsTakeTurns) {
  Cluster cluster = oneGpuOf({"new"});
  GavelRun run(cluster, {jobOf("a", 6, {{"new", 1}}), jobOf("b", 6, {{"new", 1}})});
  ASSERT_TRUE(run.schedule[0].isAdmitted() && run.schedule[1].isAdmitted());
  EXPECT_EQ(makespan(run.schedule), 12);
  EXPECT_GE(std::min(run.schedule[0].completion(), run.schedule[1].completion()), 10);
}
