// Runs of layers that repeat: the identical blocks of a transformer, the stages of a network.
#pragma once

#include "ir/LayerGraph.h"

namespace heterplan {

/// `count` blocks of `layers` layers each, one after another from layer `first`; layers at the same
/// place of two blocks have equal signatures.
struct RepeatedBlock {
  int first = 0;
  int layers = 0;
  int count = 0;
  bool operator==(const RepeatedBlock &) const = default;
};

/// The repetitions of `graph`, disjoint and in order: from the left, each time the one that covers
/// most layers, with the shortest block. Blocks are no longer than longestBlock layers, so that the
/// time is linear in the number of layers.
std::vector<RepeatedBlock> repeatedBlocks(const LayerGraph &graph);
constexpr int longestBlock = 512;

} // namespace heterplan
