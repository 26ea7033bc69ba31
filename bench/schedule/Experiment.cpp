// The sweeps of PD-ORS's publication (Yu et al., arXiv 2108.02917, section V) over every policy:
// prints docs/experiments/schedule.md. Times are of this machine; everything else is deterministic.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "search/jobs/read/Generator.h"
#include "search/jobs/read/Traces.h"
#include "support/ChangedRows.h"
#include "support/Files.h"
#include "support/JobsChecker.h"
#include "support/RandomJobs.h"
#include "support/StatedJobsOf.h"
#include "support/Statistics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace heterplan;
using jobs::Problem;

namespace {
constexpr int seeds = 10;

Seconds steadyTime() {
  std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(now.count());
}

/// `nodes` servers of eight GPUs, 64 cores and 488 GiB: 16 GB/s within, 10 Gbit/s between them.
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

/// The policies of a table: all, or those that HETERPLAN_POLICIES names ("fifo,srtf").
std::vector<jobs::PolicyInfo> shownPolicies() {
  const char *text = std::getenv("HETERPLAN_POLICIES");
  llvm::SmallVector<llvm::StringRef, 8> names;
  llvm::StringRef(text ? text : "").split(names, ',', -1, /*KeepEmpty=*/false);
  std::vector<jobs::PolicyInfo> shown;
  for (const jobs::PolicyInfo &info : jobs::policies())
    if (names.empty() || llvm::is_contained(names, llvm::StringRef(info.name)))
      shown.push_back(info);
  return shown;
}

struct Setting {
  int jobs = 50, nodes = 20, slots = 60;
  double batches = 1; // factor
};

Problem problemOf(const Cluster &cluster, const Setting &setting, uint64_t seed) {
  jobs::Machines machines(cluster);
  jobs::Workload workload = generate(machines, {setting.jobs, setting.slots, Seconds(600), seed});
  for (jobs::Job &job : workload.jobs)
    job.batch = std::max<int64_t>(1, int64_t(double(job.batch) * setting.batches));
  return llvm::cantFail(Problem::create(std::move(machines), std::move(workload)));
}

/// Figures of one policy on the instances of a setting.
struct Figures {
  std::vector<double> utilities, shares, completions, decisions;
  void add(const Problem &problem, double bound, const jobs::PolicyResult &result) {
    double utility = totalUtility(problem, result.schedule);
    utilities.push_back(utility);
    shares.push_back(bound > 0 ? utility / bound : 1);
    jobs::CompletionTimes times = completionTimes(problem, result.schedule);
    if (times.admitted > 0)
      completions.push_back(times.median);
    for (Seconds decision : result.decisions)
      decisions.push_back(decision.value());
  }
};

void sweep(const char *title, const char *column,
           const std::vector<std::pair<std::string, Setting>> &settings) {
  printf("\n## %s\n\n| %s | policy | utility | of the bound | median completion (slots) | longest "
         "decision (ms) |\n| --- | --- | --- | --- | --- | --- |\n",
         title, column);
  for (const auto &[label, setting] : settings) {
    Cluster cluster = serversOf(setting.nodes);
    std::map<std::string, Figures> figures;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Problem problem = problemOf(cluster, setting, seed);
      double bound = jobs::utilityUpperBound(problem);
      for (const jobs::PolicyInfo &info : jobs::policies()) {
        if (llvm::StringRef(info.name) == "offline")
          continue;
        jobs::PolicyOptions options;
        options.clock = steadyTime;
        figures[info.name].add(problem, bound, jobs::makePolicy(info.name)->run(problem, options));
      }
    }
    for (const jobs::PolicyInfo &info : jobs::policies())
      if (auto entry = figures.find(info.name); entry != figures.end()) {
        Figures &own = entry->second;
        printf("| %s | %s | %.1f | %.2f | %.1f | %.1f |\n", label.c_str(), info.name,
               median(own.utilities), median(own.shares),
               own.completions.empty() ? 0 : median(own.completions),
               1e3 * *std::max_element(own.decisions.begin(), own.decisions.end()));
      }
  }
}

/// The first jobs of a generated workload that together ask for `load` times the resource of which
/// they take most.
Problem problemOfLoad(const Cluster &cluster, double load, int slots, uint64_t seed) {
  jobs::Machines machines(cluster);
  jobs::Workload workload = generate(machines, {2000, slots, Seconds(600), seed});
  std::array<double, jobs::resources> all = machines.totals(), asked{};
  size_t kept = 0;
  for (double most = 0; most < load && kept < workload.jobs.size(); ++kept) {
    jobs::Job &job = workload.jobs[kept];
    job.epochs = std::max<int64_t>(1, job.epochs / 25); // tens of jobs at each load
    double workerSlots = job.work() * job.sampleTime.value() / workload.slot.value();
    for (int r = 0; r < jobs::resources; ++r) {
      asked[r] +=
          workerSlots * (job.worker[r] + job.server[r] / job.workersPerServer) / (all[r] * slots);
      most = std::max(most, asked[r]);
    }
  }
  workload.jobs.resize(kept);
  return llvm::cantFail(Problem::create(std::move(machines), std::move(workload)));
}

/// A policy, or `pd-ors` in one of its ways to re-plan.
struct Variant {
  std::string name;
  const char *policy;
  jobs::Replan replan = jobs::Replan::RaiseTotal;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const jobs::PolicyInfo &info : jobs::policies()) {
    if (llvm::StringRef(info.name) == "offline")
      continue;
    all.push_back({info.name, info.name});
    if (llvm::StringRef(info.name) == "pd-ors") {
      all.push_back({"pd-ors --replan ends", info.name, jobs::Replan::KeepEnds});
      all.push_back({"pd-ors --replan none", info.name, jobs::Replan::None});
    }
  }
  return all;
}

/// Every policy against the bound and against `auto`, on 40 workloads of each load.
void loads() {
  constexpr int nodes = 10, slots = 40;
  constexpr uint64_t workloads = 40;
  printf("\n## Loads\n\n%d workloads of each load on %d servers and %d slots, seeds 0 to %d.\n"
         "The load is the demand of the jobs for the scarcest resource, over its capacity.\n"
         "\"Behind\" is the largest distance of `auto` to the best other policy of a workload.\n"
         "The constants of the policies were chosen on other seeds (1000 and above).\n\n"
         "| load | policy | of the bound, median | worst tenth | more than auto | behind |\n"
         "| --- | --- | --- | --- | --- | --- |\n",
         int(workloads), nodes, slots, int(workloads) - 1);
  Cluster cluster = serversOf(nodes);
  std::map<std::string, std::vector<double>> overall;
  for (double load : {0.3, 0.6, 1.0, 2.0, 4.0}) {
    std::map<std::string, std::vector<double>> shares;
    std::map<std::string, int> better;
    double behind = 0;
    for (uint64_t seed = 0; seed < workloads; ++seed) {
      Problem problem = problemOfLoad(cluster, load, slots, seed);
      double bound = 0, own = 0, best = 0;
      for (const Variant &variant : variants()) {
        jobs::PolicyOptions options;
        options.replan = variant.replan;
        jobs::PolicyResult result = jobs::makePolicy(variant.policy)->run(problem, options);
        double utility = totalUtility(problem, result.schedule);
        if (variant.name == "auto") {
          bound = result.upperBound;
          own = utility;
        } else {
          best = std::max(best, utility);
          better[variant.name] += utility > own * (1 + 1e-9);
        }
        shares[variant.name].push_back(bound > 0 ? utility / bound : 1);
        overall[variant.name].push_back(shares[variant.name].back());
      }
      behind = std::max(behind, best > 0 ? 1 - own / best : 0);
    }
    for (const Variant &variant : variants()) {
      bool isAuto = variant.name == "auto";
      std::vector<double> &own = shares[variant.name];
      std::sort(own.begin(), own.end());
      printf("| %.1f | %s | %.3f | %.3f | %s | %s |\n", load, variant.name.c_str(), median(own),
             own[own.size() / 10], isAuto ? "" : std::to_string(better[variant.name]).c_str(),
             isAuto ? (std::to_string(int(100 * behind)) + " %").c_str() : "");
    }
    fflush(stdout);
  }
  printf("\nParts of the bound in the median over all %d workloads:\n", 5 * int(workloads));
  const char *separator = "\n";
  for (const auto &[name, own] : overall) {
    printf("%s\n- `%s` %.3f", separator, name.c_str(), median(own));
    separator = "";
  }
  printf("\n");
}

/// Gavel's own traces on its cluster, where they are there.
void gavelTraces() {
  const char *folder = std::getenv("HETERPLAN_SHARED_DATA");
  std::string data = std::string(folder ? folder : "../shared/data") + "/gavel/";
  llvm::Expected<std::string> speeds = readFile(data + "simulation_throughputs.json", 1 << 28);
  if (!speeds) {
    fprintf(stderr, "the traces of Gavel are not in %s\n", data.c_str());
    return llvm::consumeError(speeds.takeError());
  }
  Cluster cluster;
  for (auto [name, count] : {std::pair("k80", 36), {"p100", 36}, {"v100", 36}}) {
    DeviceType type;
    type.name = name;
    type.memory = Bytes(16e9);
    cluster.types.push_back(type);
    NodeGroup group;
    group.name = name;
    group.count = count / 4;
    group.devices[name] = 4;
    group.link = {"", BytesPerSecond(16e9), Seconds(0), ""};
    cluster.nodes.push_back(group);
  }
  cluster.network = {"", BytesPerSecond(1.25e9), Seconds(0), ""};
  printf(
      "\n## Traces of Gavel\n\nGavel's traces on 36 GPUs of each of its types. JCT is the\ntime "
      "from arrival to end, in hours, of the jobs that end; every job that ends counts.\n"
      "Utilities are drawn with seed 0.\n\n| trace | slot | policy | utility | of the bound | jobs "
      "ended | mean JCT | p99 JCT | makespan | worst fairness |\n| --- | --- | --- | --- | --- | "
      "--- "
      "| --- | --- | --- | --- |\n");
  struct Trace {
    const char *name;
    double slot;
    int slots;
  };
  for (const Trace &trace :
       {Trace{"physical_small_test", 360, 100}, Trace{"physical_medium_test", 360, 400},
        Trace{"physical_max_min_fairness", 1800, 400}, Trace{"23dbec", 360, 400},
        Trace{"51b7ef", 3600, 400}, Trace{"2869ce", 21600, 400}}) {
    std::string path = data + trace.name + ".trace";
    llvm::Expected<std::string> text = readFile(path, 1 << 28);
    if (!text)
      return llvm::consumeError(text.takeError());
    for (const jobs::PolicyInfo &info : shownPolicies()) {
      jobs::Machines machines(cluster);
      jobs::Workload workload = llvm::cantFail(
          jobs::parseTrace("gavel", *text, path, machines,
                           {trace.slots, Seconds(trace.slot), 0, *speeds, "speeds"}));
      Problem problem = llvm::cantFail(Problem::create(std::move(machines), std::move(workload)));
      jobs::PolicyResult result = jobs::makePolicy(info.name)->run(problem, {});
      double bound =
          std::isfinite(result.upperBound) ? result.upperBound : utilityUpperBound(problem);
      double hours = trace.slot / 3600;
      jobs::CompletionTimes times = completionTimes(problem, result.schedule);
      printf("| %s | %.1f h | %s | %.0f | %.2f | %d of %d | %.2f | %.2f | %.2f | %.2f |\n",
             trace.name, hours, info.name, totalUtility(problem, result.schedule),
             totalUtility(problem, result.schedule) / bound, times.admitted, problem.size(),
             hours * times.mean, hours * times.p99, hours * makespan(result.schedule),
             fairness(problem, result.schedule).worst);
    }
  }
}

/// Success of rounding, and what it is worth, by the factor on fractional spreads.
void roundings() {
  printf(
      "\n## Rounding\n\n| G_δ | models solved | tries that hold | packing fails | covering fails "
      "| spreads replaced | utility |\n| --- | --- | --- | --- | --- | --- | --- |\n");
  Cluster cluster = serversOf(20);
  for (double scale : {0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5}) {
    jobs::RoundingCounts all;
    std::vector<double> utilities;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Problem problem = problemOf(cluster, {}, seed);
      jobs::PolicyOptions options;
      options.rounding.scale = scale;
      options.replan = jobs::Replan::None;
      jobs::PolicyResult result = jobs::makePolicy("pd-ors")->run(problem, options);
      utilities.push_back(totalUtility(problem, result.schedule));
      all.programs += result.rounding.programs;
      all.tries += result.rounding.tries;
      all.held += result.rounding.held;
      all.packingFailed += result.rounding.packingFailed;
      all.coveringFailed += result.rounding.coveringFailed;
      all.chosen += result.rounding.chosen;
    }
    auto share = [&](int64_t count) { return 100.0 * double(count) / double(all.tries); };
    printf("| %.1f | %lld | %.0f%% | %.0f%% | %.0f%% | %lld | %.1f |\n", scale,
           static_cast<long long>(all.programs), share(all.held), share(all.packingFailed),
           share(all.coveringFailed), static_cast<long long>(all.chosen), median(utilities));
  }
}

/// The effect of the scale of the least price L, 1/(2μ).
void priceScales() {
  printf("\n## The least price\n\nTotal utility of `pd-ors` without re-planning in the median, at "
         "the\n"
         "publication's limits of prices, by the factor on L (docs/schedule.md). The default is "
         "0.1.\n\n| factor | 20 jobs | 50 jobs | 100 jobs | batches a quarter |\n| --- | "
         "--- | --- | --- | --- "
         "|\n");
  Cluster cluster = serversOf(20);
  for (double scale : {1e-6, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0}) {
    printf("| %g |", scale);
    for (Setting setting : {Setting{20, 20, 60, 1}, Setting{50, 20, 60, 1}, Setting{100, 20, 60, 1},
                            Setting{50, 20, 60, 0.25}}) {
      std::vector<double> utilities;
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        Problem problem = problemOf(cluster, setting, seed);
        jobs::PolicyOptions options;
        options.rounding.tries = 0;
        options.loadPrices = false;
        options.replan = jobs::Replan::None;
        options.priceScale = scale;
        utilities.push_back(
            totalUtility(problem, jobs::makePolicy("pd-ors")->run(problem, options).schedule));
      }
      printf(" %.1f |", median(utilities));
    }
    printf("\n");
  }
}

/// Against the proven optimum of small random workloads.
void optima() {
  std::map<std::string, std::vector<double>> shares;
  std::vector<double> bounds;
  int tried = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::RandomJobs random(seed, {8, 8, 3});
    llvm::Expected<Problem> problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    ++tried;
    jobs::PolicyOptions options;
    options.nodeLimit = 2000;
    jobs::PolicyResult best = jobs::makePolicy("offline")->run(*problem, options);
    double optimum = totalUtility(*problem, best.schedule);
    if (!best.optimal || optimum <= 0)
      continue;
    bounds.push_back(jobs::utilityUpperBound(*problem) / optimum);
    for (const jobs::PolicyInfo &info : jobs::policies())
      shares[info.name].push_back(
          totalUtility(*problem, jobs::makePolicy(info.name)->run(*problem, options).schedule) /
          optimum);
  }
  printf("\n## Against the optimum\n\n%zu of %d random workloads of up to 8 jobs, 8 slots and 3 "
         "nodes\n"
         "have an optimum that is proven and positive.\n\n| policy | worst tenth | lower quarter | "
         "median | "
         "mean "
         "|\n| --- | --- | --- | --- | --- |\n",
         bounds.size(), tried);
  for (const jobs::PolicyInfo &info : jobs::policies()) {
    std::vector<double> &own = shares[info.name];
    std::sort(own.begin(), own.end());
    double mean = 0;
    for (double share : own)
      mean += share / double(own.size());
    printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", info.name, own[own.size() / 10],
           own[own.size() / 4], median(own), mean);
  }
  std::sort(bounds.begin(), bounds.end());
  printf("\nThe bound is %.2f times the optimum in the median, %.2f in nine of ten.\n",
         median(bounds), bounds[bounds.size() * 9 / 10]);
}

/// Counts of random schedules and of the complaints about them.
struct RuleCounts {
  int schedules = 0, held = 0, provenByZ3 = 0, withinBound = 0, changed = 0, agreed = 0, found = 0;
};

bool holdsByArithmetic(const Cluster &cluster, const jobs::Workload &workload,
                       const std::vector<StatedRow> &rows) {
  std::vector<test::JobsChecker::Row> plain;
  std::vector<bool> admitted(workload.jobs.size());
  for (const StatedRow &row : rows) {
    plain.push_back(
        {row.job, row.slot, row.node, row.type, double(row.workers), double(row.servers)});
    admitted[row.job] = true;
  }
  return test::JobsChecker(cluster, workload).complaints(plain, admitted).empty();
}

void countRules(const char *policy, const test::RandomJobs &random, const Problem &problem,
                uint64_t seed, RuleCounts &counts) {
  jobs::PolicyOptions options;
  options.nodeLimit = 500;
  options.limits.work = 2e4;
  options.seed = seed;
  jobs::Schedule schedule = jobs::makePolicy(policy)->run(problem, options).schedule;
  std::vector<StatedRow> rows = test::statedRows(problem, schedule);
  StatedJobs stated = test::statedJobs(random.cluster, random.workload);
  jobs::Workload chosen = test::chosenWorkload(random.workload, schedule);
  ++counts.schedules;
  counts.held += holdsByArithmetic(random.cluster, chosen, rows);
  counts.provenByZ3 += llvm::cantFail(brokenRules(stated, rows)).empty();
  counts.withinBound += totalUtility(problem, schedule) <= utilityUpperBound(problem);
  if (rows.empty())
    return;
  std::mt19937_64 choices(seed);
  rows = test::changedRows(std::move(rows), choices);
  bool isBroken = !llvm::cantFail(brokenRules(stated, rows)).empty();
  ++counts.changed;
  counts.agreed += isBroken == !holdsByArithmetic(random.cluster, chosen, rows);
  counts.found += isBroken;
}

/// Schedules of random workloads against two checkers that share nothing with the scheduler.
void rules() {
  constexpr int wanted = 1000;
  printf(
      "\n## Rules\n\n%d random workloads a policy, of up to 5 jobs, 8 slots and 3 nodes. Half of\n"
      "them have gangs, device types, limits of nodes, restarts, deadlines and dependencies, and\n"
      "half of these have queues with quotas.\n"
      "In a changed schedule, one number of one row is another one, or a row is gone. Some\n"
      "changed schedules hold all rules; \"agree\" counts equal verdicts of both checkers.\n\n"
      "| policy | schedules | hold (arithmetic) | hold (Z3) | within the bound | changed | agree "
      "| broken |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
      wanted);
  for (const jobs::PolicyInfo &info : shownPolicies()) {
    RuleCounts counts;
    for (uint64_t seed = 20000; counts.schedules < wanted; ++seed) {
      test::RandomJobs random(seed, {5, 8, 3, seed % 2 == 1});
      llvm::Expected<Problem> problem = random.problem();
      if (problem)
        countRules(info.name, random, *problem, seed, counts);
      else
        llvm::consumeError(problem.takeError()); // a job demands what no node has
    }
    printf("| %s | %d | %d | %d | %d | %d | %d | %d |\n", info.name, counts.schedules, counts.held,
           counts.provenByZ3, counts.withinBound, counts.changed, counts.agreed, counts.found);
    fflush(stdout);
  }
}

void scaling() {
  printf("\n## Growth\n\n| nodes | jobs | slots | PD-ORS (s) | longest decision (ms) | bound (s) "
         "|\n| --- | --- | --- | --- | --- | --- |\n");
  for (auto [nodes, count] : {std::pair(100, 100), {200, 200}, {500, 500}, {1000, 1000}}) {
    Cluster cluster = serversOf(nodes);
    Problem problem = problemOf(cluster, {count, nodes, 100, 1}, 0);
    Seconds started = steadyTime();
    jobs::PolicyOptions options;
    options.clock = steadyTime;
    jobs::PolicyResult result = jobs::makePolicy("pd-ors")->run(problem, options);
    Seconds scheduled = steadyTime() - started;
    started = steadyTime();
    jobs::utilityUpperBound(problem);
    Seconds longest = *std::max_element(result.decisions.begin(), result.decisions.end());
    printf("| %d | %d | 100 | %.1f | %.0f | %.1f |\n", nodes, count, scheduled.value(),
           1e3 * longest.value(), (steadyTime() - started).value());
  }
}
struct Section {
  const char *name;
  void (*print)();
};

const Section sections[] = {
    {"jobs",
     [] {
       sweep("Jobs", "jobs", {{"20", {20}}, {"50", {50}}, {"100", {100}}});
     }},
    {"machines",
     [] {
       sweep("Machines", "machines", {{"5", {50, 5}}, {"20", {50, 20}}, {"50", {50, 50}}});
     }},
    {"slots",
     [] {
       sweep("Slots", "slots", {{"30", {50, 20, 30}}, {"100", {50, 20, 100}}});
     }},
    {"batches",
     [] {
       sweep("Batch sizes", "batches",
             {{"a quarter", {50, 20, 60, 0.25}}, {"four times", {50, 20, 60, 4}}});
     }},
    {"loads", loads},
    {"gavel", gavelTraces},
    {"rounding", roundings},
    {"price", priceScales},
    {"optimum", optima},
    {"rules", rules},
    {"growth", scaling}};
} // namespace

/// All sections, or those that are named.
int main(int count, char **names) {
  printf(
      "# Policies of `heterplan schedule` on generated workloads\n\n"
      "`make bench-schedule` writes this file. Unless a table says otherwise, a workload has 50\n"
      "jobs in the settings of the publication (docs/schedule.md), on 20 servers of eight GPUs,\n"
      "64 cores and 488 GiB, over 60 slots of ten minutes. Figures are medians over %d seeds.\n"
      "\"Of the bound\" is total utility over `utilityUpperBound`, which no schedule exceeds.\n",
      seeds);
  for (const Section &section : sections)
    if (count < 2 ||
        std::find(names + 1, names + count, llvm::StringRef(section.name)) != names + count)
      section.print();
  return 0;
}
