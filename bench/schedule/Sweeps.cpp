// The sweeps of PD-ORS's publication (Yu et al., arXiv 2108.02917, section V) over every policy,
// and what rounding and the least price do to PD-ORS there.
#include "Sections.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/Statistics.h"

#include <cstdio>
#include <map>
#include <optional>

namespace heterplan::bench {

using jobs::Problem;

namespace {
/// A policy on one workload.
struct Figures {
  double utility = 0, share = 1;
  std::optional<double> completion; // if a job is admitted
};

constexpr double workOfAuto = 1e6; // a tenth of the default: there are a hundred workloads

Figures figuresOf(const Problem &problem, double bound, const char *policy) {
  jobs::PolicyOptions options;
  options.limits.work = workOfAuto;
  jobs::PolicyResult result = jobs::makePolicy(policy)->run(problem, options);
  Figures figures;
  figures.utility = totalUtility(problem, result.schedule);
  figures.share = bound > 0 ? figures.utility / bound : 1;
  jobs::CompletionTimes times = completionTimes(problem, result.schedule);
  if (times.admitted > 0)
    figures.completion = times.median;
  return figures;
}

struct Labelled {
  const char *label;
  Setting setting;
};

void sweep(const char *title, const char *column, const std::vector<Labelled> &settings) {
  printf("\n### %s\n\n| %s | policy | utility | of the bound | median completion (slots) |\n"
         "| --- | --- | --- | --- | --- |\n",
         title, column);
  const std::vector<jobs::PolicyInfo> shown = fastPolicies();
  auto all = makeAll(settings.size() * seeds, [&](size_t index) {
    const Setting &setting = settings[index / seeds].setting;
    const Cluster cluster = serversOf(setting.nodes);
    Problem problem = problemOf(cluster, setting, index % seeds);
    double bound = jobs::utilityUpperBound(problem);
    std::vector<Figures> figures;
    for (const jobs::PolicyInfo &info : shown)
      figures.push_back(figuresOf(problem, bound, info.name));
    return figures;
  });
  for (size_t setting = 0; setting < settings.size(); ++setting)
    for (size_t policy = 0; policy < shown.size(); ++policy) {
      std::vector<double> utilities, shares, completions;
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        const Figures &own = all[setting * seeds + seed][policy];
        utilities.push_back(own.utility);
        shares.push_back(own.share);
        if (own.completion)
          completions.push_back(*own.completion);
      }
      printf("| %s | %s | %.1f | %.2f | %.1f |\n", settings[setting].label, shown[policy].name,
             median(utilities), median(shares), completions.empty() ? 0 : median(completions));
    }
}

/// `pd-ors` without re-planning, on each workload of a setting.
std::vector<jobs::PolicyResult> resultsOf(const Setting &setting, jobs::PolicyOptions options,
                                          std::vector<double> &utilities) {
  options.replan = jobs::Replan::None;
  utilities.resize(seeds);
  const Cluster cluster = serversOf(setting.nodes);
  return makeAll(seeds, [&](size_t seed) {
    Problem problem = problemOf(cluster, setting, seed);
    jobs::PolicyResult result = jobs::makePolicy("pd-ors")->run(problem, options);
    utilities[seed] = totalUtility(problem, result.schedule);
    return result;
  });
}
} // namespace

void printSweeps() {
  printf("\n## Settings of the publication\n\n"
         "The next four tables have the sweeps of the publication: over jobs, machines, slots and "
         "batch sizes.\n`auto` improves its schedule with a tenth of its usual limit on work "
         "here.\n");
  sweep("Jobs", "jobs", {{"20", {20}}, {"50", {50}}, {"100", {100}}});
  sweep("Machines", "machines", {{"5", {50, 5}}, {"20", {50, 20}}, {"50", {50, 50}}});
  sweep("Slots", "slots", {{"30", {50, 20, 30}}, {"100", {50, 20, 100}}});
  sweep("Batch sizes", "batches",
        {{"a quarter", {50, 20, 60, 0.25}}, {"four times", {50, 20, 60, 4}}});
}

void printRounding() {
  printf("\n## Rounding\n\n"
         "The spreads that `pd-ors` solves as linear models, without re-planning, by the factor on "
         "the\nfractional spreads.\n\n"
         "| G_δ | models solved | tries that hold | packing fails | covering fails "
         "| spreads replaced | utility |\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (double scale : {0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5}) {
    jobs::PolicyOptions options;
    options.rounding.scale = scale;
    std::vector<double> utilities;
    jobs::RoundingCounts all;
    for (const jobs::PolicyResult &result : resultsOf({}, options, utilities)) {
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

void printPrices() {
  printf("\n## The least price\n\n"
         "Total utility of `pd-ors` without re-planning in the median, at the publication's limits "
         "of\nprices, by the factor on L ([schedule.md](../schedule.md#pd-ors-here)). The default "
         "is 0.1.\n\n| factor | 20 jobs | 50 jobs | 100 jobs | batches a quarter |\n"
         "| --- | --- | --- | --- | --- |\n");
  for (double scale : {1e-6, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0}) {
    printf("| %g |", scale);
    for (const Setting &setting :
         {Setting{20}, Setting{50}, Setting{100}, Setting{50, 20, 60, 0.25}}) {
      jobs::PolicyOptions options;
      options.rounding.tries = 0;
      options.loadPrices = false;
      options.priceScale = scale;
      std::vector<double> utilities;
      resultsOf(setting, options, utilities);
      printf(" %.1f |", median(utilities));
    }
    printf("\n");
  }
}

} // namespace heterplan::bench
