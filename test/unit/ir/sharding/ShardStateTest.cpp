#include "ir/sharding/ShardState.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

Shape shape(std::vector<Dim> dims) { return Shape(dims.begin(), dims.end()); }

TEST(ShardState, KeepsTheShortestPattern) {
  EXPECT_EQ(ShardState::along(1, {4, 4, 4}).pattern, ShardPattern({4}));
  EXPECT_EQ(ShardState::along(1, {4, 2, 4, 2}).pattern, ShardPattern({4, 2}));
  EXPECT_EQ(ShardState::along(1, {4, 2, 4}).pattern, ShardPattern({4, 2, 4}));
}

TEST(ShardState, DividesWholeSegmentsOnly) {
  Shape sizes = shape({{1, 0}, {0, 12}, {0, 9}});
  EXPECT_TRUE(canShard(sizes, ShardState::along(1, {12}), 4));
  EXPECT_TRUE(canShard(sizes, ShardState::along(1, {4}), 4));
  EXPECT_FALSE(canShard(sizes, ShardState::along(1, {6}), 4)) << "segments of 6 in 4 parts";
  EXPECT_FALSE(canShard(sizes, ShardState::along(1, {8}), 4)) << "12 is no multiple of 8";
  EXPECT_FALSE(canShard(sizes, ShardState::along(2, {9}), 2));
  EXPECT_FALSE(canShard(sizes, ShardState::along(3, {4}), 2)) << "there is no such axis";
  EXPECT_FALSE(canShard(sizes, ShardState::along(0, {2}), 2)) << "the batch may be odd";
  EXPECT_TRUE(canShard(sizes, ShardState::partial(), 5));
}

TEST(ShardState, DividesHeadsOfEverySample) {
  Shape sizes = shape({{12, 0}, {0, 64}}); // samples and heads on one axis
  ShardState heads = ShardState::along(0, {12});
  EXPECT_TRUE(canShard(sizes, heads, 4));
  EXPECT_EQ(localShape(sizes, heads, 4), shape({{3, 0}, {0, 64}}));
  EXPECT_FALSE(canShard(sizes, ShardState::along(0, {24}), 4)) << "segments of two samples";
}

TEST(ShardState, ReadsAsText) {
  EXPECT_EQ(toText(ShardState::replicated()), "replicated");
  EXPECT_EQ(toText(ShardState::partial()), "partial");
  EXPECT_EQ(toText(ShardState::along(2, {8, 4})), "axis 2 in segments of 8, 4");
}

} // namespace
