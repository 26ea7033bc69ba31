// Which operators combine elements along an axis that they keep: a softmax, a running sum, a sort,
// an index that counts along it. Along the batch axis that means that samples depend on each other.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Whether what `node` computes at one position of `axis` of its first operand depends on other
/// positions of it. An axis that is not known at import may be any.
bool combinesAlong(const Graph &graph, const GraphNode &node, int axis);

} // namespace heterplan
