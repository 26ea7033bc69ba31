// Makes things on several threads and hands them on one by one in their order, so that what comes
// of them is the same for any number of threads.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace heterplan {

namespace detail {
/// See makeInOrder().
template <typename T> class InOrder {
public:
  InOrder(size_t count, int threads, llvm::function_ref<T(size_t)> make)
      : count(count), window(2 * size_t(std::max(threads, 1))), make(make), results(window) {
    try {
      for (int other = 1; other < threads && size_t(other) < count; ++other)
        others.emplace_back([this] { help(); });
    } catch (const std::system_error &) {
      // The system gives no more threads: those that there are do it.
    }
  }
  InOrder(const InOrder &) = delete;
  InOrder &operator=(const InOrder &) = delete;
  ~InOrder() {
    {
      std::lock_guard guard(mutex);
      begun = count; // nothing more is begun
    }
    changed.notify_all();
    for (std::thread &other : others)
      other.join();
  }

  llvm::Error run(llvm::function_ref<llvm::Error(T)> take) {
    std::unique_lock lock(mutex);
    while (taken < count) {
      std::optional<T> &next = results[taken % window];
      if (!next && !makeOne(lock)) {
        changed.wait(lock);
        continue;
      }
      if (!next)
        continue;
      T result = std::move(*next);
      next.reset();
      ++taken;
      lock.unlock();
      changed.notify_all();
      if (llvm::Error error = take(std::move(result)))
        return error;
      lock.lock();
    }
    return llvm::Error::success();
  }

private:
  /// Makes the next one that nobody has begun; false where there is none, or too many wait.
  bool makeOne(std::unique_lock<std::mutex> &lock) {
    if (begun == count || begun >= taken + window)
      return false;
    size_t index = begun++;
    lock.unlock();
    T result = make(index);
    lock.lock();
    results[index % window] = std::move(result);
    changed.notify_all();
    return true;
  }

  void help() {
    std::unique_lock lock(mutex);
    while (begun < count)
      if (!makeOne(lock))
        changed.wait(lock);
  }

  const size_t count, window;
  llvm::function_ref<T(size_t)> make;
  std::vector<std::optional<T>> results; // by index, modulo their number
  size_t begun = 0, taken = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::thread> others;
};
} // namespace detail

/// Calls `make` for 0..count-1 on up to `threads` threads, the caller's among them, and `take` on
/// the caller's for each result in turn; it makes what it would have to wait for. Of results that
/// wait to be taken there are at most two for each thread. Ends with the first failure of `take`.
template <typename T>
llvm::Error makeInOrder(size_t count, int threads, llvm::function_ref<T(size_t)> make,
                        llvm::function_ref<llvm::Error(T)> take) {
  return detail::InOrder<T>(count, threads, make).run(take);
}

} // namespace heterplan
