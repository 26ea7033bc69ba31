// Memory of one device of a stage.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"

namespace heterplan {

/// Copies of the parameters that training keeps: parameters + gradients + optimizer state.
/// SGD 2, momentum 3, Adam 4.
int parameterCopies(Optimizer optimizer);

/// Rows of the largest part of `table` when `devices` share it as evenly as rows go.
int64_t mostRows(const SparseTable &table, int devices);

/// Need of a device that holds `rows` of `table`: they and the optimizer's state, and gradients of
/// the rows that samples of one global batch look up, all of which may lie there.
Bytes tableMemory(const SparseTable &table, int64_t rows, Optimizer optimizer, Samples globalBatch);

/// Need, sparse tables not counted, of a device that holds layers [begin, end) of `graph` and
/// processes `share` samples of each of `inFlight` micro-batches at a time:
///   copies·dense parameters + buffers + inFlight·(share·(activations + received boundary) + fixed
///   part of the boundary) + share·workspace
/// `boundary` is what crosses the cut at `begin`; workspace is that of the largest layer.
Bytes deviceMemory(const LayerGraph &graph, int begin, int end, const Cut &boundary,
                   Optimizer optimizer, Samples share, int inFlight);

} // namespace heterplan
