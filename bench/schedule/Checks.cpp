// Every policy against proven optima, and its schedules against two checkers that share nothing
// with the scheduler.
#include "Sections.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/ChangedRows.h"
#include "support/JobsChecker.h"
#include "support/RandomJobs.h"
#include "support/StatedJobsOf.h"
#include "support/Statistics.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>

namespace heterplan::bench {

using jobs::Problem;

namespace {
/// The problem of a workload, which outlives it; none if a job demands what no node has.
std::optional<Problem> problemOf(const test::RandomJobs &random) {
  llvm::Expected<Problem> problem = random.problem();
  if (problem)
    return std::move(*problem);
  llvm::consumeError(problem.takeError());
  return std::nullopt;
}

/// A small workload whose optimum is known.
struct Optimum {
  bool isTried = false, isProven = false;
  double bound = 0;           // over the optimum
  std::vector<double> shares; // by policy
};

Optimum optimumOf(uint64_t seed) {
  Optimum found;
  test::RandomJobs random(seed, {8, 8, 3});
  std::optional<Problem> problem = problemOf(random);
  if (!problem)
    return found;
  found.isTried = true;
  jobs::PolicyOptions options;
  options.nodeLimit = 2000;
  jobs::PolicyResult best = jobs::makePolicy("offline")->run(*problem, options);
  double optimum = totalUtility(*problem, best.schedule);
  if (!best.optimal || optimum <= 0)
    return found;
  found.isProven = true;
  found.bound = jobs::utilityUpperBound(*problem) / optimum;
  for (const jobs::PolicyInfo &info : jobs::policies())
    found.shares.push_back(
        totalUtility(*problem, jobs::makePolicy(info.name)->run(*problem, options).schedule) /
        optimum);
  return found;
}

/// One schedule of a random workload, and the same schedule with a change.
struct Checked {
  bool holds = false, isProven = false, isWithinBound = false;
  bool isChanged = false, verdictsAgree = false, isFound = false;
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

/// Half of the workloads have rules, a quarter has jobs that choose their workers.
test::RandomJobs workloadOf(uint64_t seed) {
  return test::RandomJobs(seed, {5, 8, 3, seed % 2 == 1, seed % 4 >= 2 && seed % 8 < 6});
}

Checked check(const char *policy, uint64_t seed) {
  test::RandomJobs random = workloadOf(seed);
  Problem problem = *problemOf(random);
  jobs::PolicyOptions options;
  options.nodeLimit = 500;
  options.limits.work = 2e4;
  options.seed = seed;
  jobs::Schedule schedule = jobs::makePolicy(policy)->run(problem, options).schedule;
  std::vector<StatedRow> rows = test::statedRows(problem, schedule);
  StatedJobs stated = test::statedJobs(random.cluster, random.workload);
  jobs::Workload chosen = test::chosenWorkload(random.workload, schedule);
  Checked found;
  found.holds = holdsByArithmetic(random.cluster, chosen, rows);
  found.isProven = llvm::cantFail(brokenRules(stated, rows)).empty();
  found.isWithinBound = totalUtility(problem, schedule) <= utilityUpperBound(problem);
  if (rows.empty())
    return found;
  std::mt19937_64 choices(seed);
  rows = test::changedRows(std::move(rows), choices);
  found.isChanged = true;
  found.isFound = !llvm::cantFail(brokenRules(stated, rows)).empty();
  found.verdictsAgree = found.isFound == !holdsByArithmetic(random.cluster, chosen, rows);
  return found;
}
} // namespace

void printOptima() {
  constexpr size_t tries = 200;
  std::vector<Optimum> all = makeAll(tries, optimumOf), proven;
  std::copy_if(all.begin(), all.end(), std::back_inserter(proven),
               [](const Optimum &each) { return each.isProven; });
  printf("\n## Against the optimum\n\n"
         "%zu of %zu random workloads of up to 8 jobs, 8 slots and 3 nodes have an optimum that is "
         "proven\nand positive. The table has the parts of it.\n\n"
         "| policy | worst tenth | lower quarter | median | mean |\n"
         "| --- | --- | --- | --- | --- |\n",
         proven.size(),
         size_t(std::count_if(all.begin(), all.end(), [](auto &each) { return each.isTried; })));
  llvm::ArrayRef<jobs::PolicyInfo> policies = jobs::policies();
  for (size_t policy = 0; policy < policies.size(); ++policy) {
    std::vector<double> own;
    for (const Optimum &each : proven)
      own.push_back(each.shares[policy]);
    std::sort(own.begin(), own.end());
    double mean = std::accumulate(own.begin(), own.end(), 0.0) / double(own.size());
    printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", policies[policy].name, own[own.size() / 10],
           own[own.size() / 4], median(own), mean);
  }
  std::vector<double> bounds;
  for (const Optimum &each : proven)
    bounds.push_back(each.bound);
  std::sort(bounds.begin(), bounds.end());
  printf("\nThe bound is %.2f times the optimum in the median, %.2f in nine of ten.\n",
         median(bounds), bounds[bounds.size() * 9 / 10]);
}

void printRules() {
  constexpr size_t wanted = 1000;
  std::vector<uint64_t> chosen;
  for (uint64_t seed = 20000; chosen.size() < wanted; ++seed)
    if (problemOf(workloadOf(seed)))
      chosen.push_back(seed);
  llvm::ArrayRef<jobs::PolicyInfo> policies = jobs::policies();
  std::vector<Checked> all = makeAll(policies.size() * wanted, [&](size_t index) {
    return check(policies[index / wanted].name, chosen[index % wanted]);
  });
  printf(
      "\n## Rules\n\n"
      "The schedules are those of %zu random workloads a policy, of up to 5 jobs, 8 slots and 3 "
      "nodes. Half\nof them have gangs, device types, limits of nodes, restarts, deadlines and "
      "dependencies, and half\nof these have queues with quotas. A quarter has jobs that choose "
      "the GPUs of their workers. Two\ncheckers hold each schedule to the rules: plain "
      "arithmetic, and Z3 over exact rational numbers.\n\n"
      "In a changed schedule, one number of one row is another one, or a row is gone. Some "
      "changed\nschedules hold all rules. \"Agree\" counts equal verdicts of both checkers.\n\n"
      "| policy | schedules | hold (arithmetic) | hold (Z3) | within the bound | changed | agree "
      "| broken |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
      wanted);
  for (size_t policy = 0; policy < policies.size(); ++policy) {
    auto own = llvm::ArrayRef(all).slice(policy * wanted, wanted);
    auto count = [&](bool Checked::*fact) {
      return int(std::count_if(own.begin(), own.end(), [&](auto &each) { return each.*fact; }));
    };
    printf("| %s | %zu | %d | %d | %d | %d | %d | %d |\n", policies[policy].name, wanted,
           count(&Checked::holds), count(&Checked::isProven), count(&Checked::isWithinBound),
           count(&Checked::isChanged), count(&Checked::verdictsAgree), count(&Checked::isFound));
  }
}

} // namespace heterplan::bench
