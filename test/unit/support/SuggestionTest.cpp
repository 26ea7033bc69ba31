#include "support/Suggestion.h"

#include <gtest/gtest.h>

using namespace heterplan;

TEST(Suggestion, FindsTheWordThatWasMeant) {
  std::vector<std::string> options = {"--precision", "--pin", "--min-throughput"};
  EXPECT_EQ(closest("--precison", options), "--precision");
  EXPECT_EQ(closest("--min-througput", options), "--min-throughput");
  EXPECT_EQ(closest("--colour", options), "");
  EXPECT_EQ(closest("compil", {"import", "compile"}), "compile");
  EXPECT_EQ(closest("x", {"y", "abcx"}), "");
}

TEST(Suggestion, APartOfANameIsEnough) {
  std::vector<std::string> layers = {"/layer1/layer1.0/conv1/Conv", "/conv1/Conv", "/fc/Gemm"};
  EXPECT_EQ(closest("conv1", layers), "/conv1/Conv");
  EXPECT_EQ(didYouMean("FC", layers), "; did you mean '/fc/Gemm'?");
  EXPECT_EQ(didYouMean("nothing", layers), "");
}
