// The time of the operations and of the memory traffic of every node of a graph, by which ways to
// shard a model are compared. Plans are priced by the cost model.
#pragma once

#include "ir/Graph.h"
#include "support/Units.h"

#include <vector>

namespace heterplan {

/// The time of each node for a micro-batch of `batch` samples, both passes: operations at `peak`,
/// and activations that are read and written at `memory`.
std::vector<Seconds> nodeTimes(const Graph &graph, int64_t batch, FlopsPerSecond peak,
                               BytesPerSecond memory);

} // namespace heterplan
