#include "search/exact/Tuning.h"

#include <gtest/gtest.h>

using namespace heterplan;

TEST(Tuning, wholeNumbersAreAtLeastOneAndOthersStay) {
  Tuning tuning;
  EXPECT_TRUE(setTuning(tuning, "steps-per-stage", 0.5)); // a divisor
  EXPECT_EQ(tuning.stepsPerStage, 1);
  EXPECT_TRUE(setTuning(tuning, "beam-width", 3.9));
  EXPECT_EQ(tuning.beamWidth, 3);
  EXPECT_TRUE(setTuning(tuning, "brief-share", 0.5));
  EXPECT_EQ(tuning.briefShare, 0.5);
  EXPECT_FALSE(setTuning(tuning, "nothing", 1));
}

TEST(Tuning, everyNameSetsAConstant) {
  for (const char *name : tuningNames()) {
    Tuning tuning;
    EXPECT_TRUE(setTuning(tuning, name, 1)) << name;
  }
}
