#include "support/Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace heterplan {

void inParallel(size_t count, int threads, llvm::function_ref<void(size_t)> work) {
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

} // namespace heterplan
