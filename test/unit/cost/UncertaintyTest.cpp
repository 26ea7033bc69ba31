#include "cost/Uncertainty.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace heterplan;

namespace {

TEST(Uncertainty, IntervalsOfOtherLevelsAreBroughtToThatOf90) {
  EXPECT_NEAR(halfWidthOf95(1.96), 1.645, 1e-3);
  EXPECT_NEAR(halfWidthOfMedian(0.6745), 1.645, 1e-3);
}

TEST(Uncertainty, WorseProvenanceIsNoSurer) {
  for (int i = 1; i < provenances; ++i)
    EXPECT_GE(usualHalfWidth(Provenance(i)), usualHalfWidth(Provenance(i - 1)));
}

TEST(Uncertainty, HalfWidthsAreWeightedByTime) {
  TimeSum times;
  times.add(Provenance::Measured, 3, 0.1);
  times.add(Provenance::Modelled, 1, 0.9); // a mean of 0.3
  TimeInterval interval = intervalOf(Seconds(5), times);
  double factor = std::exp(std::sqrt(0.3 * 0.3 + stepHalfWidth * stepHalfWidth));
  EXPECT_DOUBLE_EQ(interval.least.value(), 5 / factor);
  EXPECT_DOUBLE_EQ(interval.most.value(), 5 * factor);
  EXPECT_EQ(interval.confidence, 0.9);
}

TEST(Uncertainty, OfNoTimeAllIsModelled) {
  TimeSum modelled;
  modelled.add(Provenance::Modelled, 1);
  EXPECT_EQ(intervalOf(Seconds(1), {}), intervalOf(Seconds(1), modelled));
}

} // namespace
