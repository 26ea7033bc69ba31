// The time of the operations of every node of a graph, by which ways to shard a model are compared.
// Memory traffic is left out, as if cheap operators were fused with products: a way that divides
// them at the price of more collectives is of no use then. Plans are priced by the cost model.
#pragma once

#include "ir/Graph.h"
#include "support/Units.h"

#include <vector>

namespace heterplan {

/// The time of the operations of each node for a micro-batch of `batch` samples, both passes.
std::vector<Seconds> nodeTimes(const Graph &graph, int64_t batch, FlopsPerSecond peak);

} // namespace heterplan
