// The figures that the host calculates for launches and libraries.
#include "cost/kernels/cuda/Plans.h"
#include "cost/kernels/cuda/Storage.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace heterplan::kernels;
using namespace heterplan::kernels::cuda;

namespace {
TEST(PlansTest, AWalkGoesWhereItsStridesLead) {
  auto walk = walkOf({2, 3, 4}, {{12, 4, 1}, {1, 0, 6}});
  ASSERT_TRUE(walk);
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(walk->offset(i, 0), i);
    EXPECT_EQ(walk->offset(i, 1), i / 12 + i % 4 * 6);
  }
  EXPECT_FALSE(walkOf({}, {{}}));
  EXPECT_FALSE(walkOf(Dims(9, 2), {stridesOf(Dims(9, 2))}));
}

TEST(PlansTest, PlacesBeyondFourBillionAreFound) {
  int64_t many = int64_t(3) << 32;
  auto walk = walkOf({many, 2}, {{2, 1}});
  EXPECT_EQ(walk->offset(2 * many - 1, 0), 2 * many - 1);
  EXPECT_EQ(quotient(many * 7 + 5, many), 7);
  EXPECT_EQ(quotient(4294967295, 10), 429496729);
}

TEST(PlansTest, AFoldingVisitsEachTermOfEachResultOnce) {
  Dims dims{2, 3, 4}, rows = stridesOf(dims);
  for (const Dims &target : {Dims{0, 1, 0}, Dims{4, 0, 1}, Dims{0, 0, 0}, rows}) {
    auto folding = foldingOf(dims, target, {rows, target});
    ASSERT_TRUE(folding);
    EXPECT_EQ(folding->resultCount * folding->termCount, 24);
    EXPECT_EQ(folding->neighbours, target[2] == 0);
    std::vector<int> seen(24);
    for (int64_t result = 0; result < folding->resultCount; ++result)
      for (int64_t term = 0; term < folding->termCount; ++term) {
        ++seen[folding->offset(result, term, 0)];
        EXPECT_EQ(folding->offset(result, term, 1), folding->offset(result, 0, 1));
      }
    EXPECT_EQ(seen, std::vector<int>(24, 1));
  }
}

TEST(PlansTest, BlocksAreNeitherIdleNorTooFew) {
  EXPECT_EQ(lanesOf(1, 256), 1);
  EXPECT_EQ(lanesOf(128, 256), 32);
  EXPECT_EQ(lanesOf(100000, 256), 256);
  EXPECT_EQ(piecesOf(100000, 1, 1000, 132), 1);     // enough results
  EXPECT_EQ(piecesOf(1, 1, 1 << 20, 132), 4 * 132); // one result
  EXPECT_EQ(piecesOf(768, 32, 4096, 132), 22);
  EXPECT_EQ(piecesOf(1, 1, 70, 132), 1); // pieces of a few terms are not worth it
}

TEST(PlansTest, ColumnsComeFirstForCublas) {
  ColumnProduct call = columnProductOf({7, 3, 4}, false, {7, 4, 5}, false);
  EXPECT_EQ(call.m, 5);
  EXPECT_EQ(call.n, 3);
  EXPECT_EQ(call.k, 4);
  EXPECT_EQ(call.batch, 7);
  EXPECT_EQ(call.firstLeading, 5);
  EXPECT_EQ(call.secondLeading, 4);
  EXPECT_EQ(call.secondStride, 12);
  EXPECT_EQ(call.resultStride, 15);
  call = columnProductOf({4, 3}, true, {5, 4}, true);
  EXPECT_TRUE(call.turnFirst && call.turnSecond);
  EXPECT_EQ(call.m, 5);
  EXPECT_EQ(call.n, 3);
  EXPECT_EQ(call.k, 4);
  EXPECT_EQ(call.batch, 1);
}

TEST(PlansTest, CudnnPadsBothEndsAlike) {
  Windows windows{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}};
  EXPECT_EQ(paddingOf(windows, {1, 1, 6, 5}, {1, 1, 3, 3}), (std::vector<int>{1, 1}));
  windows.before = {0, 0}; // and one more at the end
  EXPECT_FALSE(paddingOf(windows, {1, 1, 6, 6}, {1, 1, 3, 3}));
}

TEST(PlansTest, TheFastestAlgorithmMustWorkAndFit) {
  std::vector<Candidate> candidates = {
      {0, false, 1, 0, 0}, {1, true, 2, 1000, 0}, {2, true, 3, 100, 1}, {3, true, 4, 0, 0}};
  EXPECT_EQ(fastest(candidates, 2000)->algorithm, 1);
  EXPECT_EQ(fastest(candidates, 999)->algorithm, 2);
  EXPECT_EQ(fastest(candidates, 0)->algorithm, 3);
  EXPECT_EQ(fastest({candidates[0]}, 2000), nullptr);
}

TEST(StorageTest, BFloat16RoundsToTheNearestEven) {
  auto stored = [](float value) { return float(BFloat16(value)); };
  EXPECT_EQ(stored(1.0f), 1.0f);
  EXPECT_EQ(stored(-2.5f), -2.5f);
  EXPECT_EQ(stored(1.00390625f), 1.0f);      // a tie: 1 + 2^-8
  EXPECT_EQ(stored(1.01171875f), 1.015625f); // a tie: 1 + 3·2^-8
  EXPECT_EQ(stored(1.004f), 1.0078125f);
  EXPECT_TRUE(std::isnan(stored(NAN)));
  EXPECT_TRUE(std::isinf(stored(3.4e38f)));
}
} // namespace
