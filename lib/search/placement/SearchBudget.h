// How long a strategy may go on: a count of work, the same on every machine, and what makes a run
// depend on the clock or on the user (a time limit, an interruption).
#pragma once

#include "search/Search.h"

#include <algorithm>

namespace heterplan {

class SearchBudget {
public:
  /// `share` of the work that `options` allows.
  explicit SearchBudget(const SearchOptions &options, double share = 1)
      : options(options), limit(static_cast<int64_t>(double(options.workLimit) * share)) {}

  void add(int64_t work) {
    done += work;
    if (options.work)
      options.work->fetch_add(work, std::memory_order_relaxed);
  }
  bool exhausted() const { return done >= limit || interrupted(); }
  /// The user or the clock says stop.
  bool interrupted() const { return stopped() || options.deadline.passed(); }
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
  double secondsLeft() const { return options.deadline.left().value(); }
  double progress() const { return double(done) / double(std::max<int64_t>(limit, 1)); }

private:
  bool stopped() const { return options.stop && options.stop->load(std::memory_order_relaxed); }

  const SearchOptions &options;
  int64_t done = 0, limit;
};

} // namespace heterplan
