// The assignment of a strategy to every node of a model that takes the least time at a given
// degree: collectives, and work that every shard repeats.
#pragma once

#include "ir/sharding/ShardConversions.h"
#include "ir/sharding/ShardSpace.h"

#include <vector>

namespace heterplan {

struct ShardProblem {
  const Graph &graph;
  ShardSpace space;
  std::vector<Seconds> nodeTimes; // by node: both passes of the whole node on one device
  ShardMachine machine;
};

struct ShardAssignment {
  int degree = 1;
  std::vector<ShardStrategy> nodes; // by node
  std::vector<ShardState> tensors;  // by tensor: the state in which it is made or stored
  Seconds time{};
  bool optimal = true; // within the space; false if candidates were dropped
};

/// The time of `assignment`: work of the nodes, passes over parameters, and conversions. A version
/// of a tensor that one consumer needed serves later ones.
Seconds assignmentTime(const ShardProblem &problem, const ShardAssignment &assignment);

/// Every node computed by every shard.
ShardAssignment replicatedAssignment(const Graph &graph, int degree);

/// The assignment of the least time, by dynamic programming over the nodes in order: a label has
/// the states of the tensors that later nodes use, and the versions of them at hand. Exact unless
/// there are more labels than `mostLabels` after a node; then those of the least time go on.
ShardAssignment bestAssignment(const ShardProblem &problem, int mostLabels = 4096);

} // namespace heterplan
