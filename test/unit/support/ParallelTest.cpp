#include "support/Parallel.h"

#include "gtest/gtest.h"

#include <atomic>
#include <vector>

using namespace heterplan;

TEST(Parallel, eachPieceIsDoneOnce) {
  for (int threads : {1, 3, 16})
    for (size_t count : {0, 1, 2, 50}) {
      std::vector<std::atomic<int>> done(count);
      inParallel(count, threads, [&](size_t i) { ++done[i]; });
      for (const std::atomic<int> &times : done)
        EXPECT_EQ(times, 1);
    }
}

TEST(Parallel, oneThreadWorksInOrder) {
  std::vector<size_t> order;
  inParallel(4, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
}

TEST(Parallel, theFirstFailureCountsAndAllIsDone) {
  for (int threads : {1, 3}) {
    std::vector<std::atomic<int>> done(8);
    llvm::Error failure = tryInParallel(8, threads, [&](size_t i) {
      ++done[i];
      return i % 3 == 2 ? llvm::createStringError(llvm::inconvertibleErrorCode(), "piece %zu", i)
                        : llvm::Error::success();
    });
    EXPECT_EQ(llvm::toString(std::move(failure)), "piece 2");
    for (const std::atomic<int> &times : done)
      EXPECT_EQ(times, 1);
  }
}

TEST(Parallel, withoutAFailureItSucceeds) {
  EXPECT_FALSE(tryInParallel(5, 2, [](size_t) { return llvm::Error::success(); }));
}
