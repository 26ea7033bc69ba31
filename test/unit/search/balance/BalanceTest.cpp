#include "search/balance/Balance.h"

#include "gtest/gtest.h"

#include <array>
#include <functional>
#include <numeric>
#include <random>

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

/// Five samples take the fast device less than three: it takes them once it has four.
TEST(Balance, SamplesOneByOneWhereTimesFall) {
  auto measured = [](int64_t n) { return std::array{0.0, 19.7, 30.3, 47.0, 55.5, 36.6, 37.0}[n]; };
  auto fast = [&](int64_t n) { return measured(n) / 1.25; };
  auto slow = [&](int64_t n) { return measured(n) / 0.8; };
  EXPECT_EQ(balanceOneByOne({{1, 6, fast}, {1, 6, slow}}, 6),
            (std::vector<std::vector<int64_t>>{{4}, {2}}));
  EXPECT_EQ(balanceOneByOne({{1, 6, fast}, {2, 6, slow}}, 9),
            (std::vector<std::vector<int64_t>>{{5}, {2, 2}}));
  EXPECT_TRUE(balanceOneByOne({{1, 3, fast}, {1, 2, slow}}, 6).empty()) << "memory";
}

/// Two samples take a device less than one, so that one by one gives the slow devices too few.
TEST(Balance, FasterSharesWhereTimesFall) {
  auto measured = [](int64_t n) { return std::array{0.0, 5.0, 4.7, 13.5, 17.2, 21.6}[n]; };
  auto fast = [&](int64_t n) { return measured(n) / 1.25; };
  auto slow = [&](int64_t n) { return measured(n) / 0.8; };
  const std::vector<EqualDevices> classes = {{2, 5, slow}, {2, 5, fast}};
  EXPECT_EQ(balanceOneByOne(classes, 7), (std::vector<std::vector<int64_t>>{{2, 1}, {2, 2}}));
  EXPECT_EQ(balanceAnyTimes(classes, 7), (std::vector<std::vector<int64_t>>{{2, 2}, {2, 1}}));
  EXPECT_TRUE(balanceAnyTimes({{1, 3, fast}, {1, 2, slow}}, 6).empty()) << "memory";
}

TEST(Balance, flatTimesAndHugeBatchesEnd) {
  auto flat = [](int64_t) { return 1.0; };
  EXPECT_EQ(
      sum(balance({{2, int64_t(1) << 31, flat}, {3, int64_t(1) << 31, flat}}, int64_t(1) << 31)),
      int64_t(1) << 31);
}

namespace {
/// A device of its own class: max(floor, slope·n) + constant, up to `most` samples.
struct RandomDevice {
  double slope, constant, floor;
  int64_t most, least;
  double time(int64_t samples) const { return std::max(floor, slope * double(samples)) + constant; }
};

std::vector<RandomDevice> draw(std::mt19937_64 &random, int64_t least) {
  auto whole = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  std::vector<RandomDevice> devices(size_t(whole(1, 4)));
  for (RandomDevice &device : devices) {
    double floor = whole(0, 2) == 0 ? double(whole(0, 9)) : 0; // coarse figures: there are ties
    device = {double(whole(1, 8)) / 2, double(whole(0, 3)), floor, whole(1, 9), least};
  }
  return devices;
}

std::vector<int64_t> sharesOf(const std::vector<RandomDevice> &devices, int64_t samples,
                              decltype(&balance) divide = balance) {
  std::vector<std::function<double(int64_t)>> times;
  for (const RandomDevice &device : devices)
    times.push_back([&device](int64_t n) { return device.time(n); });
  std::vector<EqualDevices> classes;
  for (size_t i = 0; i < devices.size(); ++i)
    classes.push_back({1, devices[i].most, times[i], devices[i].least});
  std::vector<int64_t> shares;
  for (const std::vector<int64_t> &own : divide(classes, samples))
    shares.push_back(own.front());
  return shares;
}

double slowest(const std::vector<RandomDevice> &devices, const std::vector<int64_t> &shares) {
  double most = 0;
  for (size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0)
      most = std::max(most, devices[i].time(shares[i]));
  return most;
}

/// By trying all; infinite where they do not fit.
double bruteForce(const std::vector<RandomDevice> &devices, int64_t samples,
                  std::vector<int64_t> shares = {}) {
  if (shares.size() == devices.size())
    return samples == 0 ? slowest(devices, shares) : INFINITY;
  const RandomDevice &next = devices[shares.size()];
  double best = INFINITY;
  for (int64_t share = next.least; share <= std::min(next.most, samples); ++share) {
    shares.push_back(share);
    best = std::min(best, bruteForce(devices, samples - share, shares));
    shares.pop_back();
  }
  return best;
}
} // namespace

TEST(Balance, equalsBruteForceOnThousandRandomCases) {
  std::mt19937_64 random(19);
  int fitting = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<RandomDevice> devices = draw(random, int64_t(random() % 2));
    int64_t samples = 1 + int64_t(random() % 24);
    std::vector<int64_t> shares = sharesOf(devices, samples);
    double best = bruteForce(devices, samples);
    ASSERT_EQ(shares.empty(), std::isinf(best)) << i;
    ASSERT_EQ(shares, sharesOf(devices, samples, balanceOneByOne)) << i;
    if (shares.empty())
      continue;
    ++fitting;
    ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t(0)), samples);
    for (size_t d = 0; d < shares.size(); ++d)
      ASSERT_TRUE(devices[d].least <= shares[d] && shares[d] <= devices[d].most);
    ASSERT_EQ(slowest(devices, shares), best) << i;
  }
  EXPECT_GT(fitting, 400) << "the cases say something";
}

TEST(Balance, fasterDevicesNeverGetFewerAndOthersNeverMore) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 1000; ++i) {
    std::vector<RandomDevice> devices = draw(random, int64_t(random() % 2));
    int64_t samples = 1 + int64_t(random() % 24);
    std::vector<int64_t> before = sharesOf(devices, samples);
    size_t faster = random() % devices.size();
    double factor = 1 - double(random() % 90) / 100;
    devices[faster].slope *= factor;
    devices[faster].constant *= factor;
    devices[faster].floor *= factor;
    std::vector<int64_t> after = sharesOf(devices, samples);
    for (size_t d = 0; d < before.size(); ++d)
      ASSERT_TRUE(d == faster ? after[d] >= before[d] : after[d] <= before[d]) << i;
  }
}

TEST(Balance, devicesOfOneSpeedDifferByOneSample) {
  auto slow = [](int64_t n) { return 2.0 * double(n); };
  auto fast = [](int64_t n) { return 1.0 * double(n); };
  auto shares = balance({{3, 100, slow}, {4, 100, fast}}, 50);
  for (const auto &own : shares)
    EXPECT_LE(own.front() - own.back(), 1);
  EXPECT_EQ(sum(shares), 50);
}

namespace {
/// Devices of several classes whose times are drawn at random.
struct MeasuredClass {
  int count;
  int64_t most;
  std::vector<double> times; // by samples
};

std::vector<MeasuredClass> drawMeasured(std::mt19937_64 &random) {
  std::vector<MeasuredClass> classes(1 + random() % 3);
  for (MeasuredClass &each : classes) {
    each.count = 1 + int(random() % 3);
    each.most = 1 + int64_t(random() % 12);
    for (int64_t samples = 0; samples <= 12; ++samples)
      each.times.push_back(double(random() % 20 + 2 * uint64_t(samples)));
  }
  return classes;
}

/// The least time of the slowest device over all even shares of each class, by trying them.
double bestEven(const std::vector<MeasuredClass> &classes, int64_t samples, size_t first = 0) {
  if (first == classes.size())
    return samples == 0 ? 0 : INFINITY;
  const MeasuredClass &own = classes[first];
  double best = INFINITY;
  for (int64_t taken = own.count; taken <= samples; ++taken) {
    double slowest = 0;
    for (int device = 0; device < own.count; ++device) {
      const int64_t share = (taken + device) / own.count;
      slowest = std::max(slowest, share <= own.most ? own.times[size_t(share)] : INFINITY);
    }
    best = std::min(best, std::max(slowest, bestEven(classes, samples - taken, first + 1)));
  }
  return best;
}
} // namespace

TEST(Balance, anyTimesEqualsBruteForceOfEvenShares) {
  std::mt19937_64 random(45);
  int better = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<MeasuredClass> measured = drawMeasured(random);
    std::vector<std::function<double(int64_t)>> times;
    for (const MeasuredClass &each : measured)
      times.push_back([&](int64_t samples) { return each.times[size_t(samples)]; });
    std::vector<EqualDevices> classes;
    for (size_t k = 0; k < measured.size(); ++k)
      classes.push_back({measured[k].count, measured[k].most, times[k]});
    const int64_t samples = 1 + int64_t(random() % 12);
    auto slowest = [&](const std::vector<std::vector<int64_t>> &shares) {
      double most = shares.empty() ? INFINITY : 0;
      for (size_t k = 0; k < shares.size(); ++k)
        for (int64_t share : shares[k])
          most = std::max(most, times[k](share));
      return most;
    };
    const auto shares = balanceAnyTimes(classes, samples);
    ASSERT_EQ(slowest(shares), bestEven(measured, samples)) << i;
    ASSERT_TRUE(shares.empty() || sum(shares) == samples) << i;
    better += slowest(shares) < slowest(balanceOneByOne(classes, samples));
  }
  EXPECT_GT(better, 50) << "the cases say something";
}
