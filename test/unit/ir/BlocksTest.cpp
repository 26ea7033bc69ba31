#include "ir/Blocks.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

/// One layer for each letter; equal letters have equal signatures.
LayerGraph layers(const std::string &letters) {
  LayerGraph graph;
  for (size_t i = 0; i < letters.size(); ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.signature = letters[i];
    graph.layers.push_back(std::move(layer));
  }
  return graph;
}

TEST(Blocks, AreFoundBetweenOtherLayers) {
  EXPECT_EQ(repeatedBlocks(layers("eabcabcabch")), (std::vector<RepeatedBlock>{{1, 3, 3}}));
}

TEST(Blocks, OfSeveralKindsFollowEachOther) {
  EXPECT_EQ(repeatedBlocks(layers("ababxcdcdcd")),
            (std::vector<RepeatedBlock>{{0, 2, 2}, {5, 2, 3}}));
}

TEST(Blocks, AreTheShortestThatCoverMost) {
  EXPECT_EQ(repeatedBlocks(layers("aaaa")), (std::vector<RepeatedBlock>{{0, 1, 4}}));
  // Pairs inside of a block do not hide the block.
  EXPECT_EQ(repeatedBlocks(layers("aabaab")), (std::vector<RepeatedBlock>{{0, 3, 2}}));
}

TEST(Blocks, NoneWhereNothingRepeats) {
  EXPECT_TRUE(repeatedBlocks(layers("abcd")).empty());
  EXPECT_TRUE(repeatedBlocks(layers("")).empty());
  EXPECT_TRUE(repeatedBlocks(layers("a")).empty());
}

TEST(Blocks, DoNotOverlapAndEqualEachOther) {
  std::string letters;
  unsigned state = 7;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    letters += static_cast<char>('a' + (state >> 30));
  }
  int end = 0;
  for (const RepeatedBlock &block : repeatedBlocks(layers(letters))) {
    EXPECT_GE(block.first, end);
    EXPECT_GE(block.count, 2);
    end = block.first + block.layers * block.count;
    for (int i = block.first; i + block.layers < end; ++i)
      ASSERT_EQ(letters[i], letters[i + block.layers]);
  }
}

} // namespace
