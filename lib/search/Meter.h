// How long a strategy may go on: a count of work, the same on every machine, and what makes a run
// depend on the clock or on the user (a time limit, an interruption).
#pragma once

#include "search/Search.h"

#include <chrono>

namespace heterplan {

class Meter {
public:
  /// `share` of the work that `options` allows.
  explicit Meter(const SearchOptions &options, double share = 1)
      : options(options), limit(static_cast<int64_t>(double(options.workLimit) * share)) {}

  void add(int64_t work) { done += work; }
  bool exhausted() const { return done >= limit || interrupted(); }
  /// The user or the clock says stop.
  bool interrupted() const {
    if (options.stop && options.stop->load(std::memory_order_relaxed))
      return true;
    if (options.timeLimit == Seconds(0))
      return false;
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - options.started;
    return elapsed.count() > options.timeLimit.value();
  }
  double progress() const { return double(done) / double(std::max<int64_t>(limit, 1)); }

private:
  const SearchOptions &options;
  int64_t done = 0, limit;
};

} // namespace heterplan
