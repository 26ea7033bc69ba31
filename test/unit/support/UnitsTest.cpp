#include "support/Units.h"

#include "gtest/gtest.h"

#include <type_traits>

using namespace heterplan;

namespace {

template <typename A, typename B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept Divisible = requires(A a, B b) {
  a / b;
};

// What makes no sense does not compile.
static_assert(Addable<Seconds, Seconds>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Addable<Seconds, double>);
static_assert(!Addable<Dollars, DollarsPerHour>);
static_assert(!Divisible<Bytes, FlopsPerSecond>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_convertible_v<Seconds, double>);
static_assert(sizeof(Seconds) == sizeof(double));

TEST(Units, StartAtZero) {
  EXPECT_EQ(Seconds().value(), 0);
  EXPECT_EQ(Samples().value(), 0);
}

TEST(Units, AddScaleAndCompare) {
  Seconds time(1.5);
  time += Seconds(0.5);
  time -= Seconds(1);
  EXPECT_EQ(time, Seconds(1));
  EXPECT_EQ(time * 4, Seconds(4));
  EXPECT_EQ(4 * time, Seconds(4));
  EXPECT_EQ(time / 4, Seconds(0.25));
  EXPECT_EQ(Seconds(3) - Seconds(1), Seconds(2));
  EXPECT_LT(Seconds(1), Seconds(2));
}

TEST(Units, RatioIsAPlainNumber) {
  EXPECT_EQ(Seconds(3) / Seconds(2), 1.5);
  EXPECT_EQ(Samples(3) / Samples(2), 1.5) << "not an integer division";
}

TEST(Units, RatesTurnSizesIntoTimes) {
  EXPECT_EQ(Bytes(1e9) / BytesPerSecond(5e8), Seconds(2));
  EXPECT_EQ(Flops(1e12) / FlopsPerSecond(4e12), Seconds(0.25));
  EXPECT_EQ(Samples(100) / Seconds(4), SamplesPerSecond(25));
}

TEST(Units, PriceOfATime) {
  EXPECT_DOUBLE_EQ((DollarsPerHour(2.42) * Seconds(1800)).value(), 1.21);
}

} // namespace
