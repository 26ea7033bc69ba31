// The ways in which a model can be sharded: for every node the strategies among which an assignment
// chooses. They follow from the rules, beginning along the axes of the weights of products, and of
// sums of products: what lies between products can be sharded along the sequence, so that a
// reduce-scatter and an all-gather take the place of an all-reduce (Korthikanti et al., Reducing
// Activation Recomputation in Large Transformer Models, MLSys 2023).
#pragma once

#include "ir/sharding/ShardingRules.h"

#include <vector>

namespace heterplan {

struct ShardSpace {
  int degree = 1;
  std::vector<std::vector<ShardStrategy>> strategies; // by node; the first replicates it
  std::vector<std::vector<ShardState>> states;        // by tensor: sharded ones that occur
  /// States and strategies beyond these were left out for some tensor or node.
  bool truncated = false;
};

constexpr size_t mostStatesOfTensor = 12, mostStrategiesOfNode = 24;

/// The axes along which sharding begins.
enum class ShardBegin {
  Weights,        // of the weights of products, so that each of them can be divided
  WeightsAndSums, // and of tensors of which shards may have summands, up to the next product
  Everywhere,     // of all floating tensors, whole and in two segments
};

/// The space for `degree` ≥ 2. Deterministic; linear in the size of the graph.
ShardSpace shardSpace(const Graph &graph, int degree,
                      ShardBegin begin = ShardBegin::WeightsAndSums);

} // namespace heterplan
