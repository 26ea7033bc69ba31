#include "Fixture.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

TEST(JobsAuto, RunsJobsThatAreWorthAlmostNothing) {
  std::vector<jobs::Job> all{jobOnTypes("worthy", 5, {{"gpu", 1}}),
                             jobOnTypes("late", 20, {{"gpu", 1}}),
                             jobOnTypes("later", 10, {{"gpu", 1}})};
  for (jobs::Job &job : all)
    job.utility = {jobs::Utility::Kind::Constant, 50, 0, 0, 0};
  for (int late : {1, 2}) // at most 50 · e^-54, which does not change a total of 50
    all[size_t(late)].utility = {jobs::Utility::Kind::Sigmoid, 50, 6, 0, 0};
  PolicyRun run("auto", gpusOf({{"gpu", 1}}), all);
  for (int job = 0; job < 3; ++job)
    EXPECT_TRUE(run.schedule[job].isAdmitted()) << job;
  EXPECT_EQ(run.schedule[0].completion(), 4);
}
