// A small cluster and jobs whose figures are worked out by hand.
#pragma once

#include "search/jobs/policy/Policy.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

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

/// A node of each type with so many GPUs; fast links.
inline Cluster gpusOf(const std::vector<std::pair<std::string, int>> &types) {
  Cluster cluster;
  for (const auto &[name, count] : types) {
    DeviceType type;
    type.name = name;
    type.memory = Bytes(16e9);
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = name;
    group.devices[name] = count;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
  return cluster;
}

/// A job of one worker at most, which trains `samples` on each type in a slot of a second.
inline jobs::Job jobOnTypes(const char *name, int64_t work,
                            const std::map<std::string, double> &samples) {
  jobs::Job job;
  job.name = name;
  job.samples = work;
  job.worker = {0, 0, 1};
  for (const auto &[type, each] : samples)
    job.sampleTimes[type] = Seconds(1 / each);
  job.utility.value = 1;
  return job;
}

inline jobs::Problem problemOf(const Cluster &cluster, std::vector<jobs::Job> jobs, int slots,
                               Seconds slot) {
  return llvm::cantFail(
      jobs::Problem::create(jobs::Machines(cluster), {slot, slots, std::move(jobs)}));
}

/// A policy's schedule of 40 slots of a second.
struct PolicyRun {
  PolicyRun(const char *policy, const Cluster &cluster, std::vector<jobs::Job> all)
      : problem(problemOf(cluster, std::move(all), 40, Seconds(1))),
        schedule(jobs::makePolicy(policy)->run(problem, {}).schedule) {}

  /// The node of the first row of `job` in `slot`, which is named after its type; "": none.
  std::string typeIn(int job, int slot) const {
    const jobs::Machines &machines = problem.machines();
    auto entry = schedule[job].slots.find(slot);
    return entry == schedule[job].slots.end()
               ? ""
               : machines.nodes()[machines.sites()[entry->second.front().site].node].name;
  }
  int64_t workersIn(int job, int slot) const {
    int64_t sum = 0;
    if (auto entry = schedule[job].slots.find(slot); entry != schedule[job].slots.end())
      for (const jobs::Row &row : entry->second)
        sum += row.workers;
    return sum;
  }

  jobs::Problem problem;
  jobs::Schedule schedule;
};

} // namespace heterplan::test
