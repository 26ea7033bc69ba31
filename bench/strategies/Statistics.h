// Helpers that the benchmarks of the strategies share: order statistics, and work on two threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

namespace heterplan::bench {

/// The least value that a share `q` of `values` does not exceed; 0 of none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  double rank = std::ceil(q * double(values.size())) - 1;
  return values[size_t(std::clamp(rank, 0.0, double(values.size() - 1)))];
}

/// Calls `work` with each of [0, count) once.
template <typename Work> void onTwoThreads(size_t count, Work work) {
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i; (i = next++) < count;)
      work(i);
  };
  std::thread other(loop);
  loop();
  other.join();
}

} // namespace heterplan::bench
