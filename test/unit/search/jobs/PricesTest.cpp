#include "Fixture.h"

#include "search/jobs/policy/Prices.h"
#include "search/jobs/policy/PrimalDual.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

TEST(JobsPrices, riseExponentiallyFromTheLeastToTheMost) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = problemOf(cluster, {gpuJob("a")}, 10, Seconds(10));
  jobs::PriceLimits limits{1, {4, 9, 16}};
  jobs::Prices prices(problem, limits);
  int gpus = problem.machines().sites()[0].resource[jobs::Gpu];
  int none = problem.machines().sites()[2].resource[jobs::Gpu];
  EXPECT_DOUBLE_EQ(prices.inSlot(3)[gpus], 1);
  EXPECT_TRUE(std::isinf(prices.inSlot(3)[none])); // the CPU node has no GPUs
  prices.take(0, 3, {{0, 1, 1}});
  EXPECT_NEAR(prices.inSlot(3)[gpus], 4, 1e-12); // half is taken: sqrt(1·16)
  EXPECT_EQ(prices.inSlot(4)[gpus], 1);
  prices.take(0, 3, {{0, 1, 0}});
  EXPECT_NEAR(prices.inSlot(3)[gpus], 16, 1e-12);
}

TEST(JobsPrices, limitsAreUtilitiesOfAUnit) {
  Cluster cluster = twoGpuNodes();
  jobs::Job job = gpuJob("a");
  job.gradient = Bytes(0);
  job.utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 5};
  jobs::Problem problem = problemOf(cluster, {job}, 10, Seconds(10));
  jobs::PriceLimits limits = jobs::priceLimits(problem, {0});
  // 10 worker-slots: 10 GPUs, 5 cores; three slots with four GPUs: delay 2, utility 6.
  EXPECT_NEAR(limits.most[jobs::Gpu], 0.6, 1e-12);
  EXPECT_NEAR(limits.most[jobs::Cpu], 6.0 / 5, 1e-12);
  EXPECT_NEAR(limits.least, 6.0 / 15 / 10, 1e-12);
}

TEST(JobsPrices, FallInSlotsThatAreNear) {
  Cluster cluster = twoGpuNodes();
  jobs::Problem problem = problemOf(cluster, {gpuJob("a")}, 10, Seconds(10));
  jobs::Prices prices(problem, jobs::PriceLimits{1, {4, 9, 16}});
  int gpus = problem.machines().sites()[0].resource[jobs::Gpu];
  prices.take(0, 3, {{0, 1, 1}});
  prices.discountFrom(2, 4);
  EXPECT_DOUBLE_EQ(prices.inSlot(2)[gpus], 0.05);
  EXPECT_NEAR(prices.inSlot(3)[gpus], 4 * 0.3, 1e-12); // what is taken stays taken
  EXPECT_DOUBLE_EQ(prices.inSlot(5)[gpus], 0.8);
  EXPECT_DOUBLE_EQ(prices.inSlot(6)[gpus], 1);
  EXPECT_FALSE(prices.isTouched(6));
  EXPECT_DOUBLE_EQ(prices.least(), 0.05);
  prices.discountFrom(5, 4);
  EXPECT_DOUBLE_EQ(prices.inSlot(5)[gpus], 0.05);
  EXPECT_DOUBLE_EQ(prices.inSlot(6)[gpus], 0.3);
}

TEST(JobsPrices, PatienceIsTheDelayThatCostsHalfOfTheJobsHalfOfTheirUtility) {
  Cluster cluster = twoGpuNodes();
  std::vector<jobs::Job> jobs = {gpuJob("a"), gpuJob("b"), gpuJob("c")};
  jobs[0].utility = {jobs::Utility::Kind::Linear, 10, 0, 0, 6};
  jobs[1].utility = {jobs::Utility::Kind::Deadline, 10, 0, 0, 1};
  jobs::Problem problem = problemOf(cluster, jobs, 10, Seconds(10)); // "c" waits for ever
  EXPECT_EQ(jobs::patienceOf(problem, {0}), 3);
  EXPECT_EQ(jobs::patienceOf(problem, {1}), 2);
  EXPECT_EQ(jobs::patienceOf(problem, {2}), 10);
  EXPECT_EQ(jobs::patienceOf(problem, {0, 1, 2}), 3);
  EXPECT_EQ(jobs::patienceOf(problem, {}), 1);
}

TEST(JobsPrimalDual, declinesWhatDoesNotPay) {
  Cluster cluster = twoGpuNodes();
  std::vector<jobs::Job> jobs = {gpuJob("rich"), gpuJob("poor")};
  jobs[0].utility.value = 1000;
  jobs[1].utility.value = 1;
  jobs::Problem problem = problemOf(cluster, jobs, 6, Seconds(10));
  jobs::Prices prices(problem, jobs::priceLimits(problem, {0, 1}));
  jobs::RoundingCounts counts;
  jobs::JobPlan rich = decide(problem, 0, 0, prices, {}, counts);
  EXPECT_TRUE(rich.isAdmitted());
  EXPECT_NE(rich.reason.find("exceeds"), std::string::npos);
  // All that is left costs nearly what the rich one is worth of a unit.
  for (int slot = 0; slot < 6; ++slot)
    for (int site : {0, 1})
      if (prices.freeIn(slot)[problem.machines().sites()[site].resource[jobs::Gpu]] >= 2)
        prices.take(1, slot, {{site, 1, 0}});
  jobs::JobPlan poor = decide(problem, 1, 0, prices, {}, counts);
  EXPECT_FALSE(poor.isAdmitted());
}
