// Sharding rules: how each operator computes on slices of its operands. A rule answers one
// question: if this operand or result of a node is sharded so, which states do the others have?
// Everything else about tensor parallelism follows from the rules (as in Shardy, OpenXLA).
#pragma once

#include "ir/sharding/ShardState.h"

#include <optional>
#include <vector>

namespace heterplan {

/// One way in which the shards compute a node. Operands and results that are left out are listed as
/// replicated.
struct ShardStrategy {
  std::vector<ShardState> operands, results;
  /// Each shard does its part of the work of the node; otherwise each does all of it.
  bool divided = false;

  bool operator==(const ShardStrategy &) const = default;
};

/// An operand or a result of a node.
struct ShardPlace {
  bool isResult = false;
  size_t index = 0;
};

/// A node whose shapes a rule reads.
struct RuleNode {
  const Graph &graph;
  const GraphNode &node;
  int degree;

  bool has(size_t operand) const {
    return operand < node.inputs.size() && node.inputs[operand] != noTensor;
  }
  bool makes(size_t result) const {
    return result < node.outputs.size() && node.outputs[result] != noTensor;
  }
  const GraphTensor &tensor(ShardPlace place) const {
    return graph.tensors[place.isResult ? node.outputs[place.index] : node.inputs[place.index]];
  }
  llvm::ArrayRef<Dim> shape(size_t operand) const {
    return graph.tensors[node.inputs[operand]].shape;
  }
  llvm::ArrayRef<Dim> result(size_t index = 0) const {
    return graph.tensors[node.outputs[index]].shape;
  }
  int rank(size_t operand) const {
    return has(operand) ? static_cast<int>(shape(operand).size()) : 0;
  }
  /// The value of an integer operand that is known at import.
  std::optional<std::vector<int64_t>> integers(size_t operand) const;
};

/// The strategy in which every shard computes the whole node.
ShardStrategy replicatedStrategy(const GraphNode &node);

/// The strategy in which operand or result `place` has `state`, which is sharded; nothing if the
/// operator has no rule for it. Every state of the result satisfies canShard().
std::optional<ShardStrategy> shardedStrategy(const RuleNode &node, ShardPlace place,
                                             const ShardState &state);

/// The strategies in which a linear operator maps summands to summands.
std::vector<ShardStrategy> partialStrategies(const RuleNode &node);

/// Whether `node` has weights along whose axes sharding begins: matrix products, convolutions and
/// lookups.
bool beginsSharding(const GraphNode &node);

/// The operators with a rule, in the order of ShardingRules.def.
std::vector<std::string> operatorsWithShardingRule();

} // namespace heterplan
