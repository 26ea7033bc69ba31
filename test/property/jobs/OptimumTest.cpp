// Policies and the bound against the exact optimum of small workloads.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/RandomJobs.h"
#include "support/Statistics.h"

#include "gtest/gtest.h"

#include <map>

using namespace heterplan;
using heterplan::test::RandomJobs;

namespace {
double utilityOf(const jobs::Problem &problem, const char *policy, bool *optimal = nullptr) {
  jobs::PolicyOptions options;
  options.nodeLimit = 3000;
  options.limits.work = 2e4;
  jobs::PolicyResult result = jobs::makePolicy(policy)->run(problem, options);
  if (optimal)
    *optimal = result.optimal;
  return totalUtility(problem, result.schedule);
}
} // namespace

TEST(JobsOptimum, primalDualReachesMostOfItAndTheBoundHolds) {
  std::vector<double> gaps;
  std::map<std::string, std::vector<double>> others;
  constexpr int instances = 40;
  for (int seed = 5000; seed < 5000 + instances; ++seed) {
    RandomJobs random(seed, {6, 8, 3});
    auto problem = random.problem();
    if (!problem) {
      llvm::consumeError(problem.takeError());
      continue;
    }
    bool optimal = false;
    double best = utilityOf(*problem, "offline", &optimal);
    double bound = jobs::utilityUpperBound(*problem);
    ASSERT_LE(best, bound) << "seed " << seed;
    if (!optimal || best <= 0)
      continue;
    for (const jobs::PolicyInfo &policy : jobs::policies()) {
      double found = utilityOf(*problem, policy.name);
      EXPECT_LE(found, best * (1 + 1e-6) + 1e-9) << policy.name << " seed " << seed;
      others[policy.name].push_back(found / best);
    }
    gaps.push_back(bound / best);
  }
  EXPECT_GE(others["pd-ors"].size(), size_t(instances / 2));
  EXPECT_GE(median(others["pd-ors"]), 0.8);
  EXPECT_LE(median(gaps), 1.1);
}
