#include "support/InOrder.h"

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace heterplan;
using llvm::Error;

namespace {
TEST(InOrder, HandsOnEachResultInItsTurn) {
  for (int threads : {0, 1, 2, 5}) {
    std::vector<size_t> taken;
    Error error = makeInOrder<size_t>(
        200, threads,
        [](size_t index) {
          if (index % 7 == 0) // later ones are ready before it
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          return index * index;
        },
        [&](size_t result) {
          taken.push_back(result);
          return Error::success();
        });
    ASSERT_FALSE(bool(error));
    ASSERT_EQ(taken.size(), 200u);
    for (size_t index = 0; index < taken.size(); ++index)
      EXPECT_EQ(taken[index], index * index);
  }
}

TEST(InOrder, MakesNothingWhereThereIsNothingToMake) {
  Error error = makeInOrder<int>(
      0, 4, [](size_t) { return 1; },
      [](int) -> Error { return Diagnostic(Diag::CannotWrite, {}) << "was asked to take"; });
  EXPECT_FALSE(bool(error));
}

TEST(InOrder, HoldsFewResultsThatWait) {
  constexpr int threads = 3;
  std::atomic<int> waiting{0}, most{0};
  Error error = makeInOrder<int>(
      100, threads,
      [&](size_t) {
        int now = ++waiting;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);)
          ;
        return 0;
      },
      [&](int) {
        --waiting;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        return Error::success();
      });
  ASSERT_FALSE(bool(error));
  EXPECT_LE(most, 2 * threads + 1); // and the one that is being taken
}

TEST(InOrder, EndsWithTheFirstFailure) {
  std::atomic<int> made{0};
  int taken = 0;
  Error error = makeInOrder<int>(
      10000, 3,
      [&](size_t index) {
        ++made;
        return int(index);
      },
      [&](int result) -> Error {
        ++taken;
        if (result == 4)
          return Diagnostic(Diag::CannotWrite, {}) << "the disk is full";
        return Error::success();
      });
  ASSERT_TRUE(bool(error));
  EXPECT_EQ(taken, 5);
  EXPECT_LT(made, 50);
  EXPECT_NE(toText(std::move(error)).find("the disk is full"), std::string::npos);
}
} // namespace
