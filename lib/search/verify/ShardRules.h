// Rules for plans whose devices share every layer (tensor parallelism). All other checks see groups
// of devices; these see the devices that the plan names, the cluster as it is, and the whole model.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/sharding/LocalGraph.h"
#include "search/verify/Checker.h"

namespace heterplan {

/// "shard-groups": each replica has as many devices as its stage states, of one type on one node,
/// which are in `cluster`; no device is in two replicas. `plan` names all devices.
Finding checkShardGroups(const Plan &plan, const Cluster &cluster);

/// "shard-slices": every stored tensor of a shard is that of the whole model, or one of equal
/// slices of it along one axis; the parameters of `layers` take the bytes of these.
Finding checkShardSlices(const Graph &whole, const LocalGraph &local, const LayerGraph &layers);

} // namespace heterplan
