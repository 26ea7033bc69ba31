// Makes things on several threads and hands them on one by one in their order, so that what comes
// of them is the same for any number of threads.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ThreadPool.h"

#include <algorithm>
#include <deque>
#include <future>
#include <optional>
#include <utility>

namespace heterplan {

/// Calls `make` for 0..count-1 on `threads` threads, and `take` on the caller's for each result in
/// turn; with one thread both in turn on the caller's. Waiting results number
/// at most two for each thread. Ends with the first failure of `take`.
template <typename T>
llvm::Error makeInOrder(size_t count, int threads, llvm::function_ref<T(size_t)> make,
                        llvm::function_ref<llvm::Error(T)> take) {
  struct Slot {
    std::optional<T> result;
    std::shared_future<void> isMade;
  };
  const size_t window = threads > 1 ? 2 * size_t(threads) : 1;
  std::deque<Slot> waiting; // outlives the threads
  std::optional<llvm::ThreadPool> pool;
  if (threads > 1 && count > 1)
    pool.emplace(llvm::hardware_concurrency(unsigned(threads)));
  for (size_t taken = 0, begun = 0; taken < count; ++taken) {
    for (; begun < std::min(count, taken + window); ++begun) {
      Slot &slot = waiting.emplace_back();
      auto fill = [&slot, make, begun] { slot.result = make(begun); };
      if (pool)
        slot.isMade = pool->async(fill);
      else
        fill();
    }
    if (pool)
      waiting.front().isMade.wait();
    T result = std::move(*waiting.front().result);
    waiting.pop_front();
    if (llvm::Error error = take(std::move(result)))
      return error;
  }
  return llvm::Error::success();
}

} // namespace heterplan
