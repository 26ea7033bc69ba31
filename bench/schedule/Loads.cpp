// Every policy against the bound and against `auto`, by load.
#include "Sections.h"

#include "search/jobs/policy/Policy.h"
#include "search/jobs/read/Generator.h"
#include "support/Statistics.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace heterplan::bench {

using jobs::Problem;

namespace {
constexpr int nodes = 10, slots = 40, shortening = 25, drawn = 2000;
constexpr uint64_t workloads = 40; // of a load
constexpr double loads[] = {0.3, 0.6, 1.0, 2.0, 4.0};

/// The first jobs of a generated workload that together ask for `load` times the resource of which
/// they take most.
Problem problemOfLoad(const Cluster &cluster, double load, uint64_t seed) {
  jobs::Machines machines(cluster);
  jobs::Workload workload = generate(machines, {drawn, slots, Seconds(600), seed});
  std::array<double, jobs::resources> all = machines.totals(), asked{};
  size_t kept = 0;
  for (double most = 0; most < load && kept < workload.jobs.size(); ++kept) {
    jobs::Job &job = workload.jobs[kept];
    job.epochs = std::max<int64_t>(1, job.epochs / shortening); // tens of jobs at each load
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

/// `auto` first.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const jobs::PolicyInfo &info : fastPolicies()) {
    all.push_back({info.name, info.name});
    if (llvm::StringRef(info.name) == "pd-ors") {
      all.push_back({"pd-ors --replan ends", info.name, jobs::Replan::KeepEnds});
      all.push_back({"pd-ors --replan none", info.name, jobs::Replan::None});
    }
  }
  return all;
}

/// The utilities of all variants on one workload.
struct Outcome {
  std::vector<double> utilities;
  double bound = 0;
  int jobs = 0;

  double share(size_t variant) const { return bound > 0 ? utilities[variant] / bound : 1; }
  double bestOther() const { return *std::max_element(utilities.begin() + 1, utilities.end()); }
  /// The distance of `auto` to the best other policy.
  double behind() const {
    double best = bestOther();
    return best > 0 ? std::max(0.0, 1 - utilities.front() / best) : 0;
  }
};

Outcome outcomeOf(double load, uint64_t seed, const std::vector<Variant> &all) {
  const Cluster cluster = serversOf(nodes);
  Problem problem = problemOfLoad(cluster, load, seed);
  Outcome outcome;
  outcome.jobs = problem.size();
  for (const Variant &variant : all) {
    jobs::PolicyOptions options;
    options.replan = variant.replan;
    jobs::PolicyResult result = jobs::makePolicy(variant.policy)->run(problem, options);
    outcome.utilities.push_back(totalUtility(problem, result.schedule));
    if (variant.name == "auto")
      outcome.bound = result.upperBound;
  }
  return outcome;
}

void printLoad(double load, llvm::ArrayRef<Outcome> own, const std::vector<Variant> &all) {
  for (size_t variant = 0; variant < all.size(); ++variant) {
    std::vector<double> shares;
    int better = 0;
    double behind = 0;
    for (const Outcome &outcome : own) {
      shares.push_back(outcome.share(variant));
      better += outcome.utilities[variant] > outcome.utilities.front() * (1 + 1e-9);
      behind = std::max(behind, outcome.behind());
    }
    std::sort(shares.begin(), shares.end());
    printf("| %.1f | %s | %.3f | %.3f | %.3f |", load, all[variant].name.c_str(), median(shares),
           shares[shares.size() / 10], shares.front());
    if (variant == 0)
      printf("  | %.1f %% |\n", 100 * behind);
    else
      printf(" %d |  |\n", better);
  }
}
} // namespace

void printLoads() {
  const std::vector<Variant> all = variants();
  const std::vector<Outcome> outcomes = makeAll(std::size(loads) * workloads, [&](size_t index) {
    return outcomeOf(loads[index / workloads], index % workloads, all);
  });
  printf("\n## Loads\n\n"
         "There are %d workloads of each load, on %d servers, over %d slots of ten minutes. The "
         "load is\nthe demand of the jobs for the scarcest resource, over its capacity. A workload "
         "has the first\njobs that together reach the load, of the %d that `generate()` "
         "(lib/search/jobs/read/Generator.cpp)\ndraws with seeds 0 to %d. Their epochs are divided "
         "by %d, so that there are tens of jobs.\n\n"
         "The constants of the policies were chosen on other seeds (1000 and above). \"Better\" "
         "counts the\nworkloads on which a policy has more utility than `auto`. \"Behind\" is the "
         "largest distance of\n`auto` to the best other policy of a workload.\n\n"
         "| load | policy | of the bound, median | worst tenth | worst | better | behind |\n"
         "| --- | --- | --- | --- | --- | --- | --- |\n",
         int(workloads), nodes, slots, drawn, int(workloads) - 1, shortening);
  for (size_t load = 0; load < std::size(loads); ++load)
    printLoad(loads[load], llvm::ArrayRef(outcomes).slice(load * workloads, workloads), all);
  printf("\nThese are the parts of the bound in the median over all %zu workloads:\n\n"
         "| policy | of the bound, median |\n| --- | --- |\n",
         outcomes.size());
  int fewest = outcomes.front().jobs, most = fewest, better = 0;
  for (const Outcome &outcome : outcomes) {
    fewest = std::min(fewest, outcome.jobs);
    most = std::max(most, outcome.jobs);
    better += outcome.behind() > 1e-9;
  }
  for (size_t variant = 0; variant < all.size(); ++variant) {
    std::vector<double> shares;
    for (const Outcome &outcome : outcomes)
      shares.push_back(outcome.share(variant));
    printf("| %s | %.3f |\n", all[variant].name.c_str(), median(shares));
  }
  printf("\nThe workloads have %d to %d jobs. On %d of them another policy has more utility than "
         "`auto`.\n`auto` does not try `gavel-sum`, `gavel-cost`, `themis-like`, `sia-like` and "
         "`fair-share`.\n",
         fewest, most, better);
}

} // namespace heterplan::bench
