#include "ir/MicroBatches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

using namespace heterplan;

namespace {
std::vector<int64_t> sizes(int64_t batch, int count) {
  MicroBatches of{Samples(batch), count};
  std::vector<int64_t> result;
  for (int i = 0; i < count; ++i)
    result.push_back(of.sizeOf(i));
  return result;
}
} // namespace

TEST(MicroBatches, DifferByOneSampleAtMostTheLargerFirst) {
  EXPECT_EQ(sizes(12, 4), (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(sizes(10, 4), (std::vector<int64_t>{3, 3, 2, 2}));
  EXPECT_EQ(sizes(10, 6), (std::vector<int64_t>{2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(sizes(7, 7), std::vector<int64_t>(7, 1));
  for (int count = 1; count <= 50; ++count) {
    std::vector<int64_t> all = sizes(50, count);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t(0)), 50);
    EXPECT_EQ(all.front(), (50 + count - 1) / count);
    EXPECT_GE(all.back(), all.front() - 1);
    EXPECT_GE(all.back(), 1);
  }
}

TEST(MicroBatches, CountWhatIsMissing) {
  EXPECT_EQ((MicroBatches{Samples(10), 4}).missing(), 2);
  EXPECT_EQ((MicroBatches{Samples(12), 4}).missing(), 0);
  EXPECT_TRUE((MicroBatches{Samples(10), 4}).isFull(1));
  EXPECT_FALSE((MicroBatches{Samples(10), 4}).isFull(2));
  EXPECT_TRUE((MicroBatches{Samples(12), 4}).isFull(3));
}

TEST(MicroBatches, AreOfOneSampleAtLeast) {
  EXPECT_TRUE((MicroBatches{Samples(3), 3}).isValid());
  EXPECT_FALSE((MicroBatches{Samples(3), 4}).isValid());
  EXPECT_FALSE((MicroBatches{Samples(3), 0}).isValid());
  EXPECT_FALSE((MicroBatches{Samples(3), -1}).isValid());
}

/// One share that is no multiple is accepted, and more are not.
TEST(MicroBatches, SharesCoverEachMicroBatchWhereAtMostOneIsNoMultiple) {
  for (int64_t batch = 2; batch <= 12; ++batch)
    for (int count = 1; count <= batch; ++count)
      for (int64_t first = 1; first < batch; ++first) {
        MicroBatches of{Samples(batch), count};
        Samples a(first), b(batch - first);
        bool covered = true;
        for (int i = 0; i < count; ++i)
          covered &= of.partOf(a, i) + of.partOf(b, i) == of.sizeOf(i);
        EXPECT_EQ(covered, of.isMultiple(a) || of.isMultiple(b)) << batch << ' ' << count;
      }
}
