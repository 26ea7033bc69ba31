// Walks over the nodes of a graph where some have bodies, and how values flow between a node and
// its bodies.
#pragma once

#include "ir/Graph.h"

#include <utility>

namespace heterplan {

/// Calls `use` with each of `nodes`; with those of its bodies before it.
template <typename Nodes, typename Use> void eachNode(Nodes &nodes, Use use) {
  for (auto &node : nodes) {
    for (auto &body : node.bodies)
      eachNode(body.nodes, use);
    use(node);
  }
}

/// Pairs of tensors that have the same value, up to an axis that Loop and Scan take off or add.
struct BodyFlow {
  using Pairs = llvm::SmallVector<std::pair<TensorId, TensorId>, 8>;
  Pairs in;      // operand of the node -> input of the body
  Pairs out;     // output of the body -> result of the node
  Pairs carried; // output of the body -> its input in the next iteration
};
/// The flow through `body`, one of the bodies of `node`; absent operands and results are left out.
BodyFlow flowOf(const GraphNode &node, const GraphBody &body);

/// Makes the captures of `node` those tensors that its bodies read and do not define, by first use.
void setCaptures(GraphNode &node);

} // namespace heterplan
