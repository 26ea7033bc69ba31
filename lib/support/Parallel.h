// Independent pieces of work on several threads.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <cstddef>

namespace heterplan {

/// Calls `work` for each of 0..count-1 on at most `threads` threads, that of the caller among them,
/// and returns when all are done. With one thread they are called in order.
void inParallel(size_t count, int threads, llvm::function_ref<void(size_t)> work);

/// The same for work that may fail: all of it is done, and the failure with the least index counts.
llvm::Error tryInParallel(size_t count, int threads, llvm::function_ref<llvm::Error(size_t)> work);

} // namespace heterplan
