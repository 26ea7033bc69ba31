#include "Fixture.h"

#include "search/jobs/Schedule.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

TEST(JobsMachines, resourcesAreOfTheHostElseOfTheCpuDevices) {
  Cluster cluster = twoGpuNodes();
  jobs::Machines machines(cluster);
  ASSERT_EQ(machines.nodes().size(), 3u);
  EXPECT_EQ(machines.nodes()[1].name, "gpu-1");
  EXPECT_EQ(machines.nodes()[2].name, "cpu");
  EXPECT_EQ(machines.capacity(),
            (std::vector<double>{4000, 32e9, 2, 4000, 32e9, 2, 8000, 16e9, 0}));
  EXPECT_EQ(machines.typeName(0), ""); // one type of GPU: no choice
}

TEST(JobsMachines, nodesOfSeveralGpuTypesHaveASiteForEach) {
  Cluster cluster = twoGpuNodes();
  DeviceType other = cluster.types[1];
  other.name = "other";
  cluster.types.push_back(other);
  cluster.nodes[0].devices["other"] = 3;
  jobs::Machines machines(cluster);
  ASSERT_EQ(machines.sites().size(), 5u);
  EXPECT_EQ(machines.kinds(), 3);
  EXPECT_EQ(machines.typeName(0), "gpu");
  EXPECT_EQ(machines.typeName(1), "other");
  EXPECT_EQ(machines.sites()[0].resource[jobs::Cpu], machines.sites()[1].resource[jobs::Cpu]);
  EXPECT_EQ(machines.sites()[2].kind, machines.sites()[0].kind);
  EXPECT_NE(machines.sites()[3].kind, machines.sites()[2].kind);
}

TEST(JobsProblem, speedDependsOnLocality) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = problemOf(cluster, {gpuJob("a")}, 10, Seconds(10));
  // 10 s / (1 s + 2/10·2·250 MB/b): b = 1 GB/s on one node, 100 MB/s between nodes.
  EXPECT_DOUBLE_EQ(problem.samplesOf(0, {{0, 2, 1}}), 2 * 10 / 1.1);
  EXPECT_DOUBLE_EQ(problem.samplesOf(0, {{0, 2, 0}, {2, 0, 1}}), 2 * 10 / 2.0);
  EXPECT_DOUBLE_EQ(problem.samplesOf(0, {{0, 2, 1}, {1, 2, 1}}), 4 * 10 / 2.0);
  EXPECT_EQ(problem.samplesOf(0, {}), 0);
}

TEST(JobsProblem, arrivalsOfOneSlotGoByPriorityThenByTheFile) {
  Cluster cluster = twoGpuNodes();
  std::vector<jobs::Job> jobs = {gpuJob("a"), gpuJob("b"), gpuJob("c"), gpuJob("d")};
  jobs[0].arrival = 1;
  jobs[2].priority = 1;
  jobs::Problem problem = problemOf(cluster, jobs, 10, Seconds(10));
  EXPECT_EQ(problem.arrivals(), (std::vector<int>{2, 1, 3, 0}));
}

TEST(JobsProblem, demandsThatNoNodeStatesAreErrors) {
  Cluster cluster = twoGpuNodes();
  jobs::Job job = gpuJob("a");
  job.location = {"jobs.yaml", 4, 5, ""};
  for (NodeGroup &group : cluster.nodes)
    group.host.memory = Bytes(0);
  job.server[jobs::Memory] = 1;
  auto problem = jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 5, {job}});
  ASSERT_FALSE(problem);
  std::string error = toText(problem.takeError());
  EXPECT_EQ(error.find("jobs.yaml:4:5: error: [HP1216] job 'a' demands memory"), 0u) << error;
}

TEST(JobsProblem, timesOfTypesThatAreNotThereAreErrors) {
  Cluster cluster = twoGpuNodes();
  jobs::Job job = gpuJob("a");
  job.sampleTimes["v900"] = Seconds(1);
  auto unknown = jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 5, {job}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(toText(unknown.takeError()).find("[HP1213]"), std::string::npos);
  job.sampleTimes = {{"cpu", Seconds(1)}};
  auto nowhere = jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 5, {job}});
  ASSERT_FALSE(nowhere);
  EXPECT_NE(toText(nowhere.takeError()).find("no sample time on any GPU"), std::string::npos);
}

TEST(JobsProblem, tooManySlotsForTheNodesAreRefused) {
  Cluster cluster = twoGpuNodes();
  cluster.nodes[0].count = 1000;
  auto problem = jobs::Problem::create(jobs::Machines(cluster), {Seconds(1), 1'000'000, {}});
  ASSERT_FALSE(problem);
  EXPECT_NE(toText(problem.takeError()).find("[HP1503]"), std::string::npos);
}

TEST(JobsJob, serversAndWorkersAgree) {
  jobs::Job job = gpuJob("a");
  job.batch = 1000;
  for (double ratio : {1.0, 2.0, 3.0, 0.4, 0.1, 1.5, 7.3}) {
    job.workersPerServer = ratio;
    for (int64_t servers = 0; servers < 50; ++servers) {
      int64_t workers = job.workersFor(servers);
      EXPECT_LE(job.serversFor(workers), servers);
      EXPECT_GT(job.serversFor(workers + 1), servers);
    }
  }
}

TEST(JobsUtility, neverRises) {
  for (auto kind : {jobs::Utility::Kind::Sigmoid, jobs::Utility::Kind::Linear,
                    jobs::Utility::Kind::Deadline, jobs::Utility::Kind::Constant}) {
    jobs::Utility utility{kind, 10, 0.5, 4, 6};
    for (int delay = 0; delay < 20; ++delay)
      EXPECT_GE(utility.at(delay), utility.at(delay + 1));
    EXPECT_GE(utility.at(20), 0);
  }
  EXPECT_DOUBLE_EQ((jobs::Utility{jobs::Utility::Kind::Sigmoid, 10, 0.5, 4, 0}.at(4)), 5);
  EXPECT_DOUBLE_EQ((jobs::Utility{jobs::Utility::Kind::Linear, 10, 0, 0, 4}.at(1)), 7.5);
  EXPECT_EQ((jobs::Utility{jobs::Utility::Kind::Deadline, 10, 0, 0, 4}.at(4)), 10);
  EXPECT_EQ((jobs::Utility{jobs::Utility::Kind::Deadline, 10, 0, 0, 4}.at(5)), 0);
}

TEST(JobsCost, IsThatOfTheGpusAndOfTheCoresOfPricedCpus) {
  Cluster cluster = twoGpuNodes();
  cluster.types[0].price = DollarsPerHour(8); // 8 cores
  cluster.types[1].price = DollarsPerHour(2);
  jobs::Job onGpus = gpuJob("gpus"), onCores = gpuJob("cores");
  onCores.worker = {2000, 0, 0};
  jobs::Problem problem = problemOf(cluster, {onGpus, onCores}, 4, Seconds(1800));
  jobs::Schedule schedule(2);
  EXPECT_EQ(jobs::cost(problem, schedule), Dollars(0));
  schedule[0].slots[0] = {{0, 2, 1}}; // the cores of the GPU nodes have no price
  schedule[0].slots[1] = {{0, 1, 1}, {1, 1, 0}};
  EXPECT_DOUBLE_EQ(jobs::cost(problem, schedule).value(), 2 * 2 * 2 * 0.5);
  schedule[1].slots[0] = {{2, 2, 1}}; // five of eight cores
  EXPECT_DOUBLE_EQ(jobs::cost(problem, schedule).value(), 4 + 5 * 0.5);
}
