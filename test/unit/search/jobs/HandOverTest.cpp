#include "Fixture.h"

#include "search/jobs/HandOver.h"
#include "search/jobs/WorkerCluster.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// Sites of twoGpuNodes(): 0 and 1 are the GPU nodes, 2 the CPU. A worker trains 5 samples a slot
/// of 6 s on one node (1.1 s each, and 5.45 of them), 3 over the network.
struct Handed {
  explicit Handed(jobs::Job job) : problem(problemOf(cluster, {std::move(job)}, 20, Seconds(6))) {}
  jobs::HandOverFile file(const jobs::JobPlan &plan, const std::string &path) {
    for (jobs::HandOverFile &file : jobs::handOver(problem, {plan}, {"--profile", "/my profile"}))
      if (file.path == path)
        return file;
    return {};
  }
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem;
};

jobs::JobPlan planOf(std::map<int, jobs::Rows> slots) { return {std::move(slots), ""}; }
} // namespace

TEST(JobsHandOver, aSegmentIsAStretchOfEqualRows) {
  jobs::Job job = gpuJob("a");
  job.samples = 65;
  Handed handed(job);
  jobs::Rows one{{0, 1, 1}}, two{{0, 2, 1}};
  // 5.45 a slot: 10.9 after two, 21.8 with two workers, 32.7, 38.2, and the rest.
  auto segments =
      segmentsOf(handed.problem, 0,
                 planOf({{1, one}, {2, one}, {3, two}, {4, two}, {6, two}, {7, two}, {8, two}}));
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].first, 1);
  EXPECT_EQ(segments[0].last, 2);
  EXPECT_EQ(segments[0].steps, 1); // 10.9 samples, of steps of 10
  EXPECT_EQ(segments[1].stepsBefore, 1);
  EXPECT_EQ(segments[1].steps, 2);
  EXPECT_EQ(segments[2].first, 6);
  EXPECT_EQ(segments[2].stepsBefore, 3);
  EXPECT_EQ(segments[2].steps, 4); // the last step is that of 5 samples
}

TEST(JobsHandOver, stepsAreThoseOfTheWorkWhateverTheSlotsTrain) {
  jobs::Job job = gpuJob("a");
  job.samples = 21;
  Handed handed(job);
  jobs::Rows one{{0, 1, 1}};
  int64_t next = 0;
  auto segments =
      segmentsOf(handed.problem, 0, planOf({{0, one}, {2, one}, {4, one}, {6, {{0, 2, 1}}}}));
  for (const jobs::Segment &segment : segments) {
    EXPECT_EQ(segment.stepsBefore, next);
    EXPECT_GE(segment.steps, 0);
    next += segment.steps;
  }
  EXPECT_EQ(next, 3);
}

TEST(JobsHandOver, onlyJobsWithAModelAreHandedOver) {
  Handed handed(gpuJob("a"));
  EXPECT_TRUE(jobs::handOver(handed.problem, {planOf({{0, {{0, 1, 1}}}})}, {}).empty());
}

TEST(JobsHandOver, scriptsQuoteNamesAndFoldersAreSafe) {
  jobs::Job job = gpuJob("../a b'$(x)");
  job.model = "/models/it's.onnx";
  Handed handed(job);
  std::string folder = "jobs/%2E.%2Fa%20b%27%24%28x%29/slot-0003/";
  jobs::HandOverFile script = handed.file(planOf({{3, {{0, 2, 1}}}}), folder + "run.sh");
  EXPECT_TRUE(script.isProgram);
  EXPECT_NE(script.text.find("compile '/models/it'\\''s.onnx' --cluster cluster.yaml --batch 10 "
                             "-o plan --profile '/my profile'\n"),
            std::string::npos)
      << script.text;
  EXPECT_NE(script.text.find("run plan --steps 10 --checkpoint-every 1 --checkpoint-dir "
                             "\"$job/checkpoints\" --resume \"$@\"\n"),
            std::string::npos)
      << script.text;
  EXPECT_TRUE(jobs::isHandOverPath(folder + "run.sh"));
  EXPECT_FALSE(jobs::isHandOverPath(folder + "plan/plan.json"));
  EXPECT_FALSE(jobs::isHandOverPath("jobs/a/checkpoints/run.sh"));
}

TEST(JobsHandOver, aBurstOfOneWorkerIsAskedFor) {
  jobs::Job job = gpuJob("a");
  job.model = "a.onnx";
  job.worker[jobs::Gpu] = 2;
  job.plans.emplace();
  (*job.plans)["gpu"] = {"burst", 3, Seconds(1)};
  Handed handed(job);
  auto scriptOf = [&](int64_t workers) {
    return handed.file(planOf({{3, {{0, workers, 1}}}}), "jobs/a/slot-0003/run.sh").text;
  };
  EXPECT_NE(scriptOf(1).find("-o plan --schedule burst"), std::string::npos) << scriptOf(1);
  EXPECT_EQ(scriptOf(2).find("--schedule"), std::string::npos); // planned for one worker
  (*job.plans)["gpu"].schedule = "1f1b";
  EXPECT_EQ(Handed(job)
                .file(planOf({{3, {{0, 1, 1}}}}), "jobs/a/slot-0003/run.sh")
                .text.find("--schedule"),
            std::string::npos);
}

TEST(JobsWorkerCluster, hasTheNodesAndDevicesOfTheWorkers) {
  Handed handed(gpuJob("a"));
  auto made = workerCluster(handed.problem, 0, {{0, 2, 0}, {1, 1, 1}, {2, 0, 1}});
  Cluster cluster = llvm::cantFail(parseCluster(made.yaml, "made"));
  ASSERT_EQ(cluster.nodes.size(), 2u); // servers alone need no node
  EXPECT_EQ(cluster.nodes[0].name, "gpu-0");
  EXPECT_EQ(cluster.nodes[0].devices.at("gpu"), 2);
  EXPECT_EQ(cluster.nodes[1].devices.at("gpu"), 1);
  EXPECT_EQ(cluster.nodes[0].link.bandwidth, BytesPerSecond(1e9));
  EXPECT_EQ(cluster.network.bandwidth, BytesPerSecond(1e8));
  EXPECT_EQ(cluster.types[0].memory, Bytes(16e9));
  EXPECT_EQ(made.hosts, "gpu-0 slots=2\ngpu-1 slots=1\n");
}

TEST(JobsWorkerCluster, aWorkerOfCoresIsAPartOfTheCpu) {
  jobs::Job job = gpuJob("a");
  job.worker = {2000, 3e9, 0};
  Cluster cluster = twoGpuNodes();
  cluster.types[0].rates = PeakRates{FlopsPerSecond(8e11), {}, {}, BytesPerSecond(8e10), ""};
  cluster.types[0].price = DollarsPerHour(4);
  jobs::Problem problem = problemOf(cluster, {job}, 20, Seconds(6));
  Cluster made = llvm::cantFail(parseCluster(workerCluster(problem, 0, {{2, 3, 2}}).yaml, "made"));
  ASSERT_EQ(made.types.size(), 1u);
  EXPECT_EQ(made.types[0].name, "cpu-2-cores");
  EXPECT_EQ(made.types[0].deviceClass, DeviceClass::Cpu);
  EXPECT_EQ(made.types[0].memory, Bytes(3e9));
  EXPECT_EQ(made.types[0].cores, 2);
  EXPECT_EQ(made.types[0].price, DollarsPerHour(1));
  EXPECT_EQ(made.types[0].rates->fp32, FlopsPerSecond(2e11));
  EXPECT_EQ(made.nodes[0].devices.at("cpu-2-cores"), 3);
}

TEST(JobsWorkerCluster, zonesAreThereWhereWorkersAreInSeveral) {
  Cluster cluster = twoGpuNodes();
  cluster.zones.resize(2);
  for (int zone = 0; zone < 2; ++zone) {
    cluster.zones[zone].name = zone ? "west" : "east";
    cluster.zones[zone].network = {"", BytesPerSecond(1e7 * (zone + 1)), Seconds(1e-5), ""};
  }
  NodeGroup other = cluster.nodes[0];
  cluster.nodes[0].count = other.count = 1;
  other.name = "far";
  cluster.nodes.push_back(other); // site 2
  cluster.nodes[0].zone = cluster.nodes[1].zone = "east";
  cluster.nodes[2].zone = "west";
  jobs::Problem problem = problemOf(cluster, {gpuJob("a")}, 20, Seconds(6));
  auto made = [&](const jobs::Rows &rows) {
    return llvm::cantFail(parseCluster(workerCluster(problem, 0, rows).yaml, "made"));
  };
  Cluster apart = made({{0, 1, 1}, {2, 1, 0}}), together = made({{0, 2, 1}});
  ASSERT_EQ(apart.zones.size(), 2u);
  EXPECT_EQ(apart.zones[1].network.bandwidth, BytesPerSecond(2e7));
  EXPECT_EQ(apart.nodes[1].zone, "west");
  EXPECT_EQ(apart.network.bandwidth, BytesPerSecond(1e8));
  EXPECT_TRUE(together.zones.empty());
}

TEST(JobsHandOver, equalPhasesArePlannedAlike) {
  jobs::Job job = gpuJob("a");
  job.model = "a.onnx";
  job.samples = 60;
  Handed handed(job);
  jobs::Rows one{{0, 1, 1}}, two{{0, 2, 1}};
  jobs::JobPlan plan = planOf({{0, one}, {1, one}, {2, two}, {3, two}, {5, one}, {6, one}});
  auto part = [&](const char *slot) {
    return jobs::planningPart(
               handed.file(plan, std::string("jobs/a/slot-000") + slot + "/run.sh").text)
        .str();
  };
  EXPECT_NE(part("0").find("compile a.onnx"), std::string::npos);
  EXPECT_EQ(part("0").find("run plan"), std::string::npos);
  EXPECT_EQ(part("0"), part("5"));
  EXPECT_EQ(handed.file(plan, "jobs/a/slot-0000/run.sh").job, 0);
  EXPECT_EQ(jobs::planningPart("echo 'nothing to do'"), "");
}
