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
  bool optimal = true; // within the space and the tolerance; false if the limit was met
};

/// The time of `assignment`: work of the nodes, passes over parameters, and conversions. A version
/// of a tensor that one consumer needed serves later ones.
Seconds assignmentTime(const ShardProblem &problem, const ShardAssignment &assignment);

/// Every node computed by every shard.
ShardAssignment replicatedAssignment(const Graph &graph, int degree);

struct AssignmentLimits {
  int labels = 1024;       // kept after a node
  double tolerance = 1e-3; // part of the least time by which the result may be longer
};

/// The assignment of the least time, by dynamic programming over the nodes in order: a label has
/// the states of the tensors that later nodes use, and the versions of them at hand. Labels are
/// dropped if another one takes no longer whatever follows. Within the tolerance of the optimum
/// unless more labels than the limit remain after a node; then those of the least time go on.
ShardAssignment bestAssignment(const ShardProblem &problem, AssignmentLimits limits = {});

} // namespace heterplan
