#include "search/placement/Balance.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace heterplan;

namespace {
int64_t sum(const std::vector<std::vector<int64_t>> &shares) {
  int64_t total = 0;
  for (const auto &shareList : shares)
    total = std::accumulate(shareList.begin(), shareList.end(), total);
  return total;
}

/// Least possible maximum by trying every split of two single devices.
double bestOfTwo(llvm::function_ref<double(int64_t)> a, llvm::function_ref<double(int64_t)> b,
                 int64_t samples) {
  double best = 1e300;
  for (int64_t first = 1; first < samples; ++first)
    best = std::min(best, std::max(a(first), b(samples - first)));
  return best;
}
} // namespace

TEST(Balance, sharesFollowSpeeds) {
  auto slow = [](int64_t n) { return 3.0 * double(n); };
  auto fast = [](int64_t n) { return 1.0 * double(n); };
  auto shares = balance({{1, 100, slow}, {1, 100, fast}}, 8);
  EXPECT_EQ(shares, (std::vector<std::vector<int64_t>>{{2}, {6}}));
}

TEST(Balance, agreesWithEnumerationOfTwoDevices) {
  for (int64_t samples = 2; samples < 40; ++samples)
    for (double factor : {0.1, 0.7, 1.0, 2.5, 9.0}) {
      auto first = [](int64_t n) { return std::max(4.0, double(n) + 1); };
      auto second = [&](int64_t n) { return factor * double(n) + 0.5; };
      auto shares = balance({{1, samples, first}, {1, samples, second}}, samples);
      ASSERT_EQ(sum(shares), samples);
      double time = std::max(first(shares[0][0]), second(shares[1][0]));
      EXPECT_DOUBLE_EQ(time, bestOfTwo(first, second, samples)) << samples << " " << factor;
    }
}

TEST(Balance, keepsMemoryLimits) {
  auto same = [](int64_t n) { return double(n); };
  EXPECT_EQ(balance({{1, 3, same}, {1, 100, same}}, 10),
            (std::vector<std::vector<int64_t>>{{3}, {7}}));
  EXPECT_TRUE(balance({{1, 3, same}, {1, 4, same}}, 10).empty());
}

TEST(Balance, everyDeviceGetsASample) {
  auto same = [](int64_t n) { return double(n); };
  EXPECT_TRUE(balance({{3, 10, same}, {2, 10, same}}, 4).empty());
  EXPECT_EQ(sum(balance({{3, 10, same}, {2, 10, same}}, 5)), 5);
}

TEST(Balance, flatTimesAndHugeBatchesEnd) {
  auto flat = [](int64_t) { return 1.0; };
  EXPECT_EQ(
      sum(balance({{2, int64_t(1) << 31, flat}, {3, int64_t(1) << 31, flat}}, int64_t(1) << 31)),
      int64_t(1) << 31);
}
