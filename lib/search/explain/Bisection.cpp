#include "search/explain/Bisection.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostBisections = 16;
} // namespace

Expected<Bisection::Result> Bisection::run(double low, double high, double resolution) {
  bool proven = true;
  for (int i = 0; i < mostBisections && high - low > resolution * high; ++i) {
    // The plan in hand may be the cheapest already: look just below it every other time.
    double middle = i % 2 == 0 ? high * (1 - resolution) : (low + high) / 2;
    middle = std::max(middle, low);
    Expected<SearchOutcome> outcome = solve(withValue(middle));
    if (!outcome)
      return outcome.takeError();
    if (outcome->plan) {
      high = std::min(middle, needOf(*outcome->plan));
      continue;
    }
    low = middle;
    proven &= outcome->isProven();
  }
  return Result{high, proven && high - low <= resolution * high * 1.001};
}

} // namespace heterplan
