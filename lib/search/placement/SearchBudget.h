// How long a strategy may go on: a count of work, the same on every machine, and what makes a run
// depend on the clock or on the user (a time limit, an interruption).
#pragma once

#include "search/Search.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace heterplan {

class SearchBudget {
public:
  /// `share` of the work that `options` allows.
  explicit SearchBudget(const SearchOptions &options, double share = 1)
      : options(options), limit(static_cast<int64_t>(double(options.workLimit) * share)) {}

  void add(int64_t work) { done += work; }
  bool exhausted() const { return done >= limit || interrupted(); }
  /// The user or the clock says stop.
  bool interrupted() const { return stopped() || secondsLeft() <= 0; }
  /// How a search ended that has its answer if `proven`, and a plan if `found`.
  Termination termination(bool proven, bool found) const {
    if (proven)
      return found ? Termination::Optimal : Termination::Infeasible;
    if (stopped())
      return Termination::Interrupted;
    return exhausted() || !found ? Termination::Limit : Termination::Feasible;
  }
  /// Work that is left, and seconds; the latter infinite without a time limit.
  int64_t left() const { return std::max<int64_t>(limit - done, 0); }
  double secondsLeft() const {
    if (options.timeLimit == Seconds(0))
      return std::numeric_limits<double>::infinity();
    return std::max(options.timeLimit.value() - elapsed(), 0.0);
  }
  double progress() const { return double(done) / double(std::max<int64_t>(limit, 1)); }

private:
  bool stopped() const { return options.stop && options.stop->load(std::memory_order_relaxed); }
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - options.started)
        .count();
  }

  const SearchOptions &options;
  int64_t done = 0, limit;
};

} // namespace heterplan
