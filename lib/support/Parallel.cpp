#include "support/Parallel.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

using namespace llvm;

namespace heterplan {

void inParallel(size_t count, int threads, function_ref<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(count, size_t(threads)); ++i)
    others.emplace_back(run);
  run();
  for (std::thread &other : others)
    other.join();
}

Error tryInParallel(size_t count, int threads, function_ref<Error(size_t)> work) {
  std::vector<std::optional<Error>> failures(count);
  inParallel(count, threads, [&](size_t i) { failures[i].emplace(work(i)); });
  Error first = Error::success();
  for (std::optional<Error> &failure : failures) {
    if (!first) // Error's bool is true when it holds a failure
      first = std::move(*failure);
    else
      consumeError(std::move(*failure));
  }
  return first;
}

} // namespace heterplan
