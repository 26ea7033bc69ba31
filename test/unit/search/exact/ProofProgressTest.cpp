// The promise of a proof, for bounds that rise at known rates.
#include "search/exact/ProofProgress.h"

#include <gtest/gtest.h>

#include <limits>

using namespace heterplan;

namespace {

/// A proof of a plan that takes 10 seconds, whose bound rises by `rate` seconds for all work.
double promisedAt(double share, double rate, double goal = 10) {
  ProofProgress progress(/*window=*/0.1);
  for (int step = 0; step / 32.0 <= share; ++step)
    progress.add(step / 32.0, 6 + rate * step / 32.0);
  return progress.promised(goal);
}

TEST(ProofProgress, IsTheRateOfTheWindowTimesWhatIsLeft) {
  // At half of the work the bound is 6.5, and 7 at the end: 0.5 of the 3.5 seconds to the goal.
  EXPECT_NEAR(promisedAt(0.5, 1), 0.5 / 3.5, 1e-12);
  EXPECT_NEAR(promisedAt(0.5, 4), 1, 1e-12);
}

TEST(ProofProgress, PromisesAllAsLongAsThereIsNoWindow) {
  EXPECT_EQ(promisedAt(0.09, 0), 1);
  EXPECT_EQ(promisedAt(0.11, 0), 1); // three steps of a 32nd are less than the window
  EXPECT_EQ(promisedAt(0.13, 0), 0);
}

TEST(ProofProgress, PromisesAllWithoutAGoal) {
  EXPECT_EQ(promisedAt(0.5, 0, std::numeric_limits<double>::infinity()), 1);
}

TEST(ProofProgress, ForgetsWhatWasBeforeTheWindow) {
  ProofProgress progress(/*window=*/0.25);
  progress.add(0, 0);
  progress.add(0.25, 8); // a fast beginning
  progress.add(0.5, 8);
  EXPECT_EQ(progress.promised(10), 0);
}

} // namespace
