// Which physical devices a placement gets.
#pragma once

#include "ir/Cluster.h"
#include "search/placement/Evaluator.h"

#include <vector>

namespace heterplan {

/// For each stage of `placement` the devices of its group, type by type in group order. Devices are
/// taken node by node, largest groups first, so that a group no larger than a node does not
/// straddle nodes where all nodes of its type are alike; `perNode` is that of the SearchSpace. The
/// placement must fit the cluster.
std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, llvm::ArrayRef<int> perNode);

} // namespace heterplan
