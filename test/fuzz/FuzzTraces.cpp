#include "Fuzzing.h"
#include "search/jobs/policy/Policy.h"
#include "search/jobs/read/Traces.h"

using namespace heterplan;

namespace {
Cluster smallCluster() {
  return llvm::cantFail(parseCluster(
      "device_types:\n"
      "  cpu: {kind: cpu, memory: 64GiB, cores: 16}\n"
      "  v100: {kind: gpu, memory: 16GiB}\n"
      "nodes:\n"
      "  - {name: a, devices: {cpu: 1, v100: 2}, link: {bandwidth: 10GB/s, latency: 1us}}\n"
      "network: {bandwidth: 1GB/s, latency: 1us}\n",
      "cluster"));
}
} // namespace

/// The first line names the form ("gavel", ...); a line "--" parts the throughputs of Gavel from
/// the jobs. The jobs are scheduled if that is little work.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [form, rest] = fuzzing::textOf(data, size).split('\n');
  auto [text, speeds] = rest.split("\n--\n");
  bool isKnown = false;
  for (const jobs::TraceForm &known : jobs::traceForms())
    isKnown |= form == known.name;
  if (!isKnown)
    return 0;
  Cluster cluster = smallCluster();
  jobs::Machines machines(cluster);
  jobs::TraceOptions options{20, Seconds(60), 0, speeds.str(), "speeds"};
  auto workload = jobs::parseTrace(form, text, "input", machines, options);
  if (!workload) {
    fuzzing::expectDiagnostic(workload.takeError());
    return 0;
  }
  if (workload->jobs.size() > 20)
    return 0;
  auto problem = jobs::Problem::create(machines, std::move(*workload));
  if (!problem) {
    fuzzing::expectDiagnostic(problem.takeError());
    return 0;
  }
  jobs::Schedule schedule = jobs::makePolicy("pd-ors")->run(*problem, {}).schedule;
  if (!(totalUtility(*problem, schedule) >= 0))
    fuzzing::fail("a schedule whose utility is no number");
  return 0;
}
