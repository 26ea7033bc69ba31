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

  /// The names of the tensors of the model, by their numbers.
  std::vector<std::string> wholeNames;

  /// The tensors that are slices of stored ones, with `states`.
  std::vector<TensorId> slicedTensors() const;
  /// By tensor: the one of the model that it is, in another state or in the same one; noTensor: it
  /// is none.
  std::vector<TensorId> originals() const;
  /// By tensor: whether every shard has the whole of it, and of its gradient.
  std::vector<bool> areWhole() const;
};

/// The local graph of `assignment`, which chooses conversions as `machine` has them. It verifies.
llvm::Expected<LocalGraph> localGraph(const Graph &graph, const ShardAssignment &assignment,
                                      const ShardMachine &machine);

/// Checks `local` against the whole model: every tensor has the shape that its state says, every
/// operator between states fits its operand and result, and the operands and results of every node
/// of the model are in states that a rule allows together. Fails with InvalidLayerGraph.
llvm::Error verify(const LocalGraph &local, const Graph &whole);

} // namespace heterplan
