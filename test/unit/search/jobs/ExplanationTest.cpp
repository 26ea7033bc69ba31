#include "Fixture.h"

#include "search/jobs/policy/Explanation.h"
#include "search/jobs/policy/Policy.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
jobs::PolicyResult explained(const jobs::Problem &problem, int job) {
  jobs::PolicyOptions options;
  options.explain = job;
  options.replan = jobs::Replan::None;
  return jobs::makePolicy("pd-ors")->run(problem, options);
}

/// The first job fills all GPUs for most of the horizon, the second one is worth `value`.
jobs::Problem contended(const Cluster &cluster, double value) {
  jobs::Job first = gpuJob("first"), second = gpuJob("second");
  first.samples = 80;
  first.utility.value = 100;
  second.samples = 50;
  second.arrival = 1;
  second.utility = {jobs::Utility::Kind::Linear, value, 0, 0, 10};
  return problemOf(cluster, {first, second}, 10, Seconds(6));
}
} // namespace

TEST(JobsExplanation, saysWhatTheDecisionWas) {
  Cluster cluster = twoGpuNodes();
  for (double value : {0.001, 5.0, 500.0}) {
    jobs::Problem problem = contended(cluster, value);
    jobs::PolicyResult result = explained(problem, 1);
    ASSERT_TRUE(result.explanation);
    const jobs::Explanation &why = *result.explanation;
    EXPECT_EQ(result.schedule[1].isAdmitted(), why.offer.payoff() > 0);
    if (result.schedule[1].isAdmitted()) {
      EXPECT_EQ(why.offer.slots, result.schedule[1].slots);
    }
    // Part of a step of a greedy spread counts at the mean cost of the step.
    double paid = why.paid[0] + why.paid[1] + why.paid[2];
    EXPECT_LE(paid, why.offer.cost * (1 + 1e-9));
    EXPECT_GE(paid, why.offer.cost * 0.7);
    ASSERT_EQ(why.offer.costs.size(), 9u); // slots 1 to 9
    for (size_t i = 1; i < why.offer.costs.size(); ++i)
      EXPECT_LE(why.offer.costs[i], why.offer.costs[i - 1]) << "ending later costs no more";
    ASSERT_EQ(why.holders.size(), 1u);
    EXPECT_EQ(why.holders[0].job, 0);
    EXPECT_GT(why.markets[0].taken[jobs::Gpu], 0);
  }
}

TEST(JobsExplanation, theLeastValueIsWhereTheDecisionTurns) {
  Cluster cluster = twoGpuNodes();
  int admitted = 0;
  for (double value = 0.001; value < 1000; value *= 3) {
    jobs::Problem problem = contended(cluster, value);
    jobs::PolicyResult result = explained(problem, 1);
    double least = result.explanation->leastValue;
    ASSERT_TRUE(std::isfinite(least));
    if (std::abs(value / least - 1) > 0.05) { // it is up to rounding of workers
      EXPECT_EQ(result.schedule[1].isAdmitted(), value > least) << value << " of " << least;
      admitted += result.schedule[1].isAdmitted();
    }
  }
  EXPECT_GT(admitted, 0);
}

TEST(JobsExplanation, doesNotChangeTheSchedule) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = contended(cluster, 5);
  jobs::RunFacts facts;
  EXPECT_EQ(toJson(problem, explained(problem, 1).schedule, facts),
            toJson(problem, explained(problem, -1).schedule, facts));
  EXPECT_FALSE(explained(problem, -1).explanation);
}

TEST(JobsExplanation, aJobThatCannotEndSaysSo) {
  Cluster cluster = twoGpuNodes();
  jobs::Job job = gpuJob("long");
  job.samples = 1'000'000;
  jobs::Problem problem = problemOf(cluster, {job}, 10, Seconds(6));
  jobs::PolicyResult result = explained(problem, 0);
  EXPECT_TRUE(std::isinf(result.explanation->leastValue));
  EXPECT_TRUE(result.explanation->offer.slots.empty());
  EXPECT_NE(toJson(problem, *result.explanation, result.schedule[0]).find("\"leastValue\": null"),
            std::string::npos);
}
