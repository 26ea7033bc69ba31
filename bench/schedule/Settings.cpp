// The clusters and workloads that the sections share.
#include "Sections.h"

#include "search/jobs/read/Generator.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace heterplan::bench {

using jobs::Problem;

int threads() {
  const char *text = std::getenv("HETERPLAN_THREADS");
  int stated = text ? std::atoi(text) : 0;
  return stated > 0 ? stated : int(std::max(1U, std::thread::hardware_concurrency()));
}

std::vector<jobs::PolicyInfo> fastPolicies() {
  std::vector<jobs::PolicyInfo> fast(jobs::policies());
  llvm::erase_if(
      fast, [](const jobs::PolicyInfo &info) { return llvm::StringRef(info.name) == "offline"; });
  return fast;
}

Cluster serversOf(int nodes) {
  Cluster cluster;
  DeviceType type;
  type.name = "gpu";
  type.memory = Bytes(16e9);
  cluster.types.push_back(type);
  NodeGroup group;
  group.name = "server";
  group.count = nodes;
  group.devices["gpu"] = 8;
  group.host = {64.0, Bytes(488.0 * (1 << 30))};
  group.link = {"", BytesPerSecond(16e9), Seconds(0), ""};
  cluster.nodes.push_back(group);
  cluster.network = {"", BytesPerSecond(1.25e9), Seconds(0), ""};
  return cluster;
}

Problem problemOf(const Cluster &cluster, const Setting &setting, uint64_t seed) {
  jobs::Machines machines(cluster);
  jobs::Workload workload = generate(machines, {setting.jobs, setting.slots, Seconds(600), seed});
  for (jobs::Job &job : workload.jobs)
    job.batch = std::max<int64_t>(1, int64_t(double(job.batch) * setting.batches));
  return llvm::cantFail(Problem::create(std::move(machines), std::move(workload)));
}

} // namespace heterplan::bench
