#include "support/Deadline.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace heterplan {

namespace {
constexpr Seconds infinite(std::numeric_limits<double>::infinity());

Seconds steadySeconds() {
  return Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}
} // namespace

Deadline Deadline::after(Seconds limit, Clock clock) {
  Deadline result;
  result.clock = clock ? std::move(clock) : Clock(steadySeconds);
  result.made = result.clock();
  result.end = result.made + limit;
  return result;
}

Seconds Deadline::limit() const { return isLimited() ? end - made : infinite; }

Seconds Deadline::left() const {
  return isLimited() ? std::max(end - clock(), Seconds(0)) : infinite;
}

Deadline Deadline::part(double share) const {
  return isLimited() ? after(left() * share, clock) : Deadline();
}

} // namespace heterplan
