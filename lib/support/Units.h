// Unit types. A bare double never crosses an interface: a time is `Seconds`, a size is `Bytes`.
// Each is one double (or integer) wide; arithmetic that makes sense is defined, the rest does not
// compile.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace heterplan {

/// A number of type `Rep` with a unit `Tag`. Quantities of one unit add, compare and scale; the
/// ratio of two is a plain number.
template <typename Tag, typename Rep = double> class Quantity {
public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : number(value) {}
  constexpr Rep value() const { return number; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.number + b.number);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.number - b.number);
  }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.number * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.number * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.number / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.number) / static_cast<double>(b.number);
  }
  constexpr Quantity &operator+=(Quantity b) { return *this = *this + b; }
  constexpr Quantity &operator-=(Quantity b) { return *this = *this - b; }

private:
  Rep number{};
};

using Seconds = Quantity<struct SecondsTag>;
/// Sizes are doubles too: they are multiplied by rates and batches, are exact up to 2^53 and
/// cannot overflow into small numbers.
using Bytes = Quantity<struct BytesTag>;
/// Floating-point operations; a multiply-accumulate counts as two.
using Flops = Quantity<struct FlopsTag>;
using Dollars = Quantity<struct DollarsTag>;
using DollarsPerHour = Quantity<struct DollarsPerHourTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using SamplesPerSecond = Quantity<struct SamplesPerSecondTag>;
using Samples = Quantity<struct SamplesTag, int64_t>;

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(size.value() / rate.value());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.value() / rate.value());
}
constexpr SamplesPerSecond operator/(Samples samples, Seconds time) {
  return SamplesPerSecond(static_cast<double>(samples.value()) / time.value());
}
/// The cost of `time` at `price`.
/// Paid once in each `time`; nothing costs nothing.
constexpr DollarsPerHour operator/(Dollars sum, Seconds time) {
  return DollarsPerHour(sum.value() == 0 ? 0 : sum.value() / (time.value() / 3600.0));
}
constexpr Dollars operator*(DollarsPerHour price, Seconds time) {
  return Dollars(price.value() * (time.value() / 3600.0));
}

} // namespace heterplan
