// The graph that one shard computes: local shapes, sliced parameters, and explicit operators
// between the states of tensors. It is the same for every shard.
#pragma once

#include "ir/sharding/ShardAssignment.h"

#include "llvm/Support/Error.h"

#include <vector>

namespace heterplan {

struct LocalGraph {
  int degree = 1;
  /// Tensors of the whole model come first, under their numbers and names; of an output of the
  /// model, the replicated version has the name. Nodes of the model keep their names.
  Graph graph;
  std::vector<ShardState> states; // by tensor of `graph`

  /// The tensors that are slices of stored ones, with `states`.
  std::vector<TensorId> slicedTensors() const;
};

/// The local graph of `assignment`, which chooses conversions as `machine` has them. It verifies.
llvm::Expected<LocalGraph> localGraph(const Graph &graph, const ShardAssignment &assignment,
                                      const ShardMachine &machine);

/// Checks `local` against the whole model: every tensor has the shape that its state says, every
/// operator between states fits its operand and result, and the operands and results of every node
/// of the model are in states that a rule allows together. Fails with InvalidLayerGraph.
llvm::Error verify(const LocalGraph &local, const Graph &whole);

} // namespace heterplan
