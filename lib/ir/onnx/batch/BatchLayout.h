// How the samples of a batch lie in each tensor. A stage is replicated by giving each replica a
// contiguous range of samples, so a tensor may cross a cut only where samples are contiguous along
// one axis: [128, N, 768] is, but reshaped to [128·N, 768] it is not.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// By tensor: whether it is independent of the batch, or has one axis of `k·N` elements in which
/// those of a sample are k neighbours.
std::vector<bool> splitsBySample(const Graph &graph);

/// Nodes whose operands grow with the batch while no result does, or that combine along the batch
/// axis (Mixing.h): they reduce over the samples, sort them or pick one, so that each replica of a
/// stage computes them on its part alone.
std::vector<int> mixingNodes(const Graph &graph);

} // namespace heterplan
