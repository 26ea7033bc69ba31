// Attention as the operators of which it consists, for engines that have no kernel for the whole.
#pragma once

#include "ir/Graph.h"

#include <optional>

namespace heterplan::kernels {

/// The nodes Transpose, MatMul, Mul, Add (of a mask), Softmax and MatMul that compute `node`, an
/// Attention of `graph`, over copies of its operands. Nothing where it has a past, heads that share
/// keys, or settings beside a scale and a mask that is added.
std::optional<Graph> attentionParts(const Graph &graph, const GraphNode &node);

} // namespace heterplan::kernels
