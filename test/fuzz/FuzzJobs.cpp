#include "Fuzzing.h"
#include "search/jobs/policy/Policy.h"
#include "search/jobs/read/JobsReader.h"

using namespace heterplan;

namespace {
/// Two nodes with everything that a job may demand.
Cluster smallCluster() {
  return llvm::cantFail(parseCluster(
      "device_types:\n"
      "  cpu: {kind: cpu, memory: 64GiB, cores: 16}\n"
      "  gpu: {kind: gpu, memory: 16GiB}\n"
      "nodes:\n"
      "  - {name: a, devices: {cpu: 1, gpu: 2}, link: {bandwidth: 10GB/s, latency: 1us}}\n"
      "  - {name: b, devices: {cpu: 2, gpu: 1}, link: {bandwidth: 10GB/s, latency: 1us}}\n"
      "network: {bandwidth: 1GB/s, latency: 1us}\n",
      "cluster"));
}
} // namespace

/// The jobs are scheduled too if that is little work: numbers at the ends of their ranges
/// must not upset the arithmetic.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto workload = jobs::parseWorkload(fuzzing::textOf(data, size), "input");
  if (!workload) {
    fuzzing::expectDiagnostic(workload.takeError());
    return 0;
  }
  if (workload->slots > 50 || workload->jobs.size() > 20)
    return 0;
  Cluster cluster = smallCluster();
  auto problem = jobs::Problem::create(jobs::Machines(cluster), std::move(*workload));
  if (!problem) {
    fuzzing::expectDiagnostic(problem.takeError());
    return 0;
  }
  for (const char *name : {"pd-ors", "fifo", "drf", "fair-share"}) {
    jobs::Schedule schedule = jobs::makePolicy(name)->run(*problem, {}).schedule;
    if (!(totalUtility(*problem, schedule) >= 0))
      fuzzing::fail("a schedule whose utility is no number");
  }
  return 0;
}
