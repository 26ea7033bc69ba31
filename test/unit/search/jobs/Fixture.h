// A small cluster and jobs whose figures are worked out by hand.
#pragma once

#include "search/jobs/Problem.h"

namespace heterplan::test {

/// Two nodes of two GPUs and a node of a CPU with 8 cores; links of 1 GB/s, network of 100 MB/s.
inline Cluster twoGpuNodes() {
  Cluster cluster;
  for (const char *name : {"cpu", "gpu"}) {
    DeviceType type;
    type.name = name;
    type.deviceClass = cluster.types.empty() ? DeviceClass::Cpu : DeviceClass::Gpu;
    type.memory = Bytes(16e9);
    type.cores = cluster.types.empty() ? 8 : 0;
    cluster.types.push_back(type);
  }
  NodeGroup group;
  group.name = "gpu";
  group.count = 2;
  group.devices["gpu"] = 2;
  group.host = {4, Bytes(32e9)};
  group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
  cluster.nodes.push_back(group);
  NodeGroup cpus;
  cpus.name = "cpu";
  cpus.devices["cpu"] = 1;
  cpus.link = group.link;
  cluster.nodes.push_back(cpus);
  cluster.network = {"", BytesPerSecond(1e8), Seconds(0), ""};
  return cluster;
}

/// 100 samples of 1 s, at most 10 workers of a GPU each, a server of one core for two workers; a
/// gradient of 250 MB takes 0.1 s a sample on the link and 1 s on the network.
inline jobs::Job gpuJob(const char *name) {
  jobs::Job job;
  job.name = name;
  job.samples = 100;
  job.batch = 10;
  job.worker = {0, 0, 1};
  job.server = {1000, 0, 0};
  job.workersPerServer = 2;
  job.sampleTime = Seconds(1);
  job.gradient = Bytes(2.5e8);
  job.utility.value = 10;
  return job;
}

inline jobs::Problem problemOf(const Cluster &cluster, std::vector<jobs::Job> jobs, int slots,
                               Seconds slot) {
  return llvm::cantFail(
      jobs::Problem::create(jobs::Machines(cluster), {slot, slots, std::move(jobs)}));
}

} // namespace heterplan::test
