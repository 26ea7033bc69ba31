// Gavel's own traces under every policy.
#include "Sections.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "search/jobs/read/Traces.h"
#include "support/Files.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace heterplan::bench {

using jobs::Problem;

namespace {
struct Trace {
  const char *name;
  double slot; // seconds
  int slots;
};
constexpr Trace traces[] = {{"physical_small_test", 360, 100},
                            {"physical_medium_test", 360, 400},
                            {"physical_max_min_fairness", 1800, 400},
                            {"23dbec", 360, 400},
                            {"51b7ef", 3600, 400},
                            {"2869ce", 21600, 400}};

/// Gavel's simulated cluster, at the prices of profiles/devices.
Cluster clusterOfGavel() {
  struct Type {
    const char *name;
    double dollarsPerHour;
  };
  Cluster cluster;
  for (const Type &each : {Type{"k80", 0.9}, Type{"p100", 1.46}, Type{"v100", 3.06}}) {
    DeviceType type;
    type.name = each.name;
    type.memory = Bytes(16e9);
    type.price = DollarsPerHour(each.dollarsPerHour);
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = each.name;
    group.count = 9;
    group.devices[each.name] = 4;
    group.link = {"", BytesPerSecond(16e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1.25e9), Seconds(0), ""};
  return cluster;
}

/// The measures of a policy on a trace; times in hours.
struct Measures {
  int jobs = 0, ended = 0;
  double utility = 0, share = 0, mean = 0, p99 = 0, makespan = 0, fairness = 0, cost = 0;

  /// Whether no measure but the cost is worse than that of `other`.
  bool isAsGoodAs(const Measures &other) const {
    auto holds = [](double own, double others) { return own <= others * (1 + 1e-9); };
    return ended >= other.ended && holds(mean, other.mean) && holds(p99, other.p99) &&
           holds(makespan, other.makespan) && holds(fairness, other.fairness);
  }
};

Measures measure(const Trace &trace, const std::string &text, const std::string &speeds,
                 const char *policy) {
  const Cluster cluster = clusterOfGavel();
  jobs::Machines machines(cluster);
  jobs::Workload workload = llvm::cantFail(
      jobs::parseTrace("gavel", text, trace.name, machines,
                       {trace.slots, Seconds(trace.slot), 0, speeds, "throughputs"}));
  Problem problem = llvm::cantFail(Problem::create(std::move(machines), std::move(workload)));
  jobs::PolicyResult result = jobs::makePolicy(policy)->run(problem, {});
  double bound =
      std::isfinite(result.upperBound) ? result.upperBound : jobs::utilityUpperBound(problem);
  double hours = trace.slot / 3600;
  jobs::CompletionTimes times = completionTimes(problem, result.schedule);
  Measures found;
  found.jobs = problem.size();
  found.ended = times.admitted;
  found.utility = totalUtility(problem, result.schedule);
  found.share = found.utility / bound;
  found.mean = hours * times.mean;
  found.p99 = hours * times.p99;
  found.makespan = hours * makespan(result.schedule);
  found.fairness = fairness(problem, result.schedule).worst;
  found.cost = cost(problem, result.schedule).value();
  return found;
}

/// The policies that are on each physical trace as good as `gavel`.
void printAgainstGavel(const std::vector<jobs::PolicyInfo> &shown,
                       const std::vector<Measures> &all) {
  auto find = [&](llvm::StringRef name) {
    return size_t(llvm::find_if(shown, [&](auto &info) { return name == info.name; }) -
                  shown.begin());
  };
  std::string names;
  for (size_t policy = 0; policy < shown.size(); ++policy) {
    bool isAsGood = llvm::StringRef(shown[policy].name) != "gavel";
    for (size_t trace = 0; trace < 3; ++trace)
      isAsGood &=
          all[trace * shown.size() + policy].isAsGoodAs(all[trace * shown.size() + find("gavel")]);
    if (isAsGood)
      names += (names.empty() ? "`" : ", `") + std::string(shown[policy].name) + "`";
  }
  printf("\nOn each of the three physical traces these policies are at least as good as `gavel` "
         "in the number\nof jobs that end, mean and p99 JCT, makespan and worst fairness: %s.\n",
         names.empty() ? "none" : names.c_str());
}
} // namespace

void printGavelTraces() {
  const char *folder = std::getenv("HETERPLAN_SHARED_DATA");
  std::string data = std::string(folder ? folder : "../shared/data") + "/gavel/";
  std::vector<std::string> texts;
  auto read = [&](const std::string &name) {
    llvm::Expected<std::string> text = readFile(data + name, 1 << 28);
    if (text)
      return texts.push_back(std::move(*text));
    llvm::consumeError(text.takeError());
    fprintf(stderr, "%s is not in %s; the section on Gavel's traces is left out\n", name.c_str(),
            data.c_str());
  };
  read("simulation_throughputs.json");
  for (const Trace &trace : traces)
    read(std::string(trace.name) + ".trace");
  if (texts.size() != 1 + std::size(traces))
    return;
  printf("\n## Traces of Gavel\n\n"
         "The jobs are those of Gavel's published traces, on 36 GPUs of each of its types. JCT is "
         "the time\nfrom arrival to end, in hours, of the jobs that end; every job that ends "
         "counts. Fairness is the\nworst finish-time fairness of a job. Costs are those of the "
         "GPUs that jobs have, at the prices of\nprofiles/devices: 0.9 (K80), 1.46 (P100) and 3.06 "
         "dollars an hour (V100). No trace states an SLO.\nUtilities are drawn with seed 0.\n\n"
         "| trace | slot | policy | utility | of the bound | jobs ended | mean JCT | p99 JCT | "
         "makespan | fairness | cost |\n"
         "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  const std::vector<jobs::PolicyInfo> shown(jobs::policies());
  const size_t count = std::size(traces) * shown.size();
  // The largest trace is the last one, and takes longest.
  std::vector<Measures> reversed = makeAll(count, [&](size_t index) {
    size_t task = count - 1 - index, trace = task / shown.size();
    return measure(traces[trace], texts[1 + trace], texts[0], shown[task % shown.size()].name);
  });
  std::vector<Measures> all(reversed.rbegin(), reversed.rend());
  for (size_t task = 0; task < count; ++task) {
    const Trace &trace = traces[task / shown.size()];
    const Measures &own = all[task];
    printf("| %s | %.1f h | %s | %.0f | %.3f | %d of %d | %.2f | %.2f | %.2f | %.2f | %.0f |\n",
           trace.name, trace.slot / 3600, shown[task % shown.size()].name, own.utility, own.share,
           own.ended, own.jobs, own.mean, own.p99, own.makespan, own.fairness, own.cost);
  }
  printAgainstGavel(shown, all);
}

} // namespace heterplan::bench
