// Small schedules by Z3, from the rules alone: every policy's hold, changed ones do not, and none
// is worth more than the proven optimum or the bound.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/JobsChecker.h"
#include "support/RandomJobs.h"
#include "support/StatedJobsOf.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
std::string joined(const std::vector<std::string> &rules) {
  std::string text;
  for (const std::string &rule : rules)
    text += rule + "\n";
  return text;
}

jobs::PolicyResult run(const jobs::Problem &problem, const char *policy) {
  jobs::PolicyOptions options;
  options.nodeLimit = 500;
  return jobs::makePolicy(policy)->run(problem, options);
}

std::optional<jobs::Problem> problemOf(const RandomJobs &random) {
  auto problem = random.problem();
  if (problem)
    return std::move(*problem);
  llvm::consumeError(problem.takeError()); // a job demands what no node has
  return std::nullopt;
}

/// One number of one row is another one, or a row is gone.
std::vector<StatedRow> changed(std::vector<StatedRow> rows, std::mt19937_64 &random) {
  StatedRow &row = rows[random() % rows.size()];
  switch (random() % 5) {
  case 0:
    row.workers += 1 + int64_t(random() % 3);
    break;
  case 1:
    row.workers = std::max<int64_t>(0, row.workers - 1);
    break;
  case 2:
    row.servers = std::max<int64_t>(0, row.servers - 1);
    break;
  case 3:
    row.slot += random() % 2 ? 1 : -1;
    break;
  default:
    rows.erase(rows.begin() + (&row - rows.data()));
  }
  return rows;
}
} // namespace

TEST(JobsProof, schedulesOfEveryPolicyHold) {
  int checked = 0;
  for (int seed = 7000; seed < 7020; ++seed) {
    RandomJobs random(seed);
    auto problem = problemOf(random);
    if (!problem)
      continue;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    for (const jobs::PolicyInfo &policy : jobs::policies()) {
      jobs::Schedule schedule = run(*problem, policy.name).schedule;
      auto broken = llvm::cantFail(brokenRules(stated, statedRows(*problem, schedule)));
      EXPECT_EQ(joined(broken), "") << policy.name << " seed " << seed;
      checked += !broken.empty() || makespan(schedule) > 0;
    }
  }
  EXPECT_GT(checked, 60);
}

TEST(JobsProof, agreesWithPlainArithmeticOnChangedSchedules) {
  int broken = 0, held = 0;
  for (int seed = 7100; seed < 7200; ++seed) {
    RandomJobs random(seed);
    auto problem = problemOf(random);
    if (!problem)
      continue;
    std::mt19937_64 choices(seed);
    std::vector<StatedRow> rows = statedRows(*problem, run(*problem, "pd-ors").schedule);
    if (rows.empty())
      continue;
    rows = changed(rows, choices);
    std::vector<JobsChecker::Row> plain;
    std::vector<bool> admitted(problem->size());
    for (const StatedRow &row : rows) {
      plain.push_back(
          {row.job, row.slot, row.node, row.type, double(row.workers), double(row.servers)});
      admitted[row.job] = true;
    }
    JobsChecker checker(random.cluster, random.workload);
    std::string complaints = checker.complaints(plain, admitted);
    auto rules = llvm::cantFail(brokenRules(statedJobs(random.cluster, random.workload), rows));
    EXPECT_EQ(rules.empty(), complaints.empty()) << "seed " << seed << "\n"
                                                 << joined(rules) << complaints;
    (rules.empty() ? held : broken) += 1;
  }
  EXPECT_GT(broken, 30);
  EXPECT_GT(held, 3);
}

TEST(JobsProof, noScheduleIsWorthMoreThanTheOptimum) {
  int proven = 0, tried = 0;
  for (int seed = 7300; seed < 7320; ++seed) {
    RandomJobs random(seed, {2, 3, 2});
    auto problem = problemOf(random);
    if (!problem)
      continue;
    jobs::PolicyResult best = run(*problem, "offline");
    double optimum = totalUtility(*problem, best.schedule);
    if (!best.optimal)
      continue;
    ++tried;
    StatedJobs stated = statedJobs(random.cluster, random.workload);
    EXPECT_NE(llvm::cantFail(canReach(stated, optimum * (1 - 1e-9))), Truth::Fails)
        << "seed " << seed;
    Truth better = llvm::cantFail(canReach(stated, optimum * (1 + 1e-6) + 1e-9));
    EXPECT_NE(better, Truth::Holds) << "seed " << seed << " optimum " << optimum;
    proven += better == Truth::Fails;
    double bound = jobs::utilityUpperBound(*problem);
    EXPECT_NE(llvm::cantFail(canReach(stated, bound * (1 + 1e-6) + 1e-9)), Truth::Holds)
        << "seed " << seed << " bound " << bound;
  }
  EXPECT_GT(tried, 5);
  EXPECT_GE(proven, tried * 3 / 4);
}
