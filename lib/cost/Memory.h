// Memory of one device of a stage.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"

namespace heterplan {

/// Copies of the parameters that training keeps: parameters + gradients + optimizer state.
/// SGD 2, momentum 3, Adam 4.
int parameterCopies(Optimizer optimizer);

/// Need of a device that holds layers [begin, end) of `graph` and processes `share` samples of each
/// of `inFlight` micro-batches at a time:
///   copies·parameters + buffers + inFlight·(share·(activations + received boundary) + fixed part
///   of the boundary) + share·workspace
/// `boundary` is what crosses the cut at `begin`; workspace is that of the largest layer.
Bytes deviceMemory(const LayerGraph &graph, int begin, int end, const Cut &boundary,
                   Optimizer optimizer, Samples share, int inFlight);

} // namespace heterplan
