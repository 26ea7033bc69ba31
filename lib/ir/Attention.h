// The operator Attention as PyTorch's fused kernels compute it. Costs, sharding rules, generated
// code and the native engine ask here what has such a kernel.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Whether `node` of `graph` is an Attention that computes softmax(scale · Q·Kᵀ + mask)·V alone:
/// without a past, numbers of keys by sample, a cap, a precision of the softmax or further results.
/// A mask is added, and has a value for each key.
bool isPlainAttention(const Graph &graph, const GraphNode &node);

} // namespace heterplan
