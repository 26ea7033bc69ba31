// Which physical devices a placement gets.
#pragma once

#include "ir/Cluster.h"
#include "search/placement/Evaluator.h"
#include "search/placement/NodePacking.h"

#include <vector>

namespace heterplan {

/// For each stage of `placement` the devices of its group, type by type in group order. Where
/// stages fill nodes they are taken node by node, largest groups first; elsewhere as they find room
/// (NodePacking). `rooms` is that of the SearchSpace. The placement must fit the cluster.
std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, llvm::ArrayRef<TypeRoom> rooms);

/// States of each stage of several types of `placement`, and of each two neighbours, which have
/// `devices`, whether they lie in one node of several.
void stateNodeSharing(const Cluster &cluster, llvm::ArrayRef<std::vector<DeviceRef>> devices,
                      Placement &placement);

/// Those of `placement` for which it matters in which nodes they are: of types of which stages lie
/// in one node with those of other types all, first.
std::vector<NodeItem> nodeItemsOf(const Cluster &cluster, const Placement &placement,
                                  llvm::ArrayRef<TypeRoom> rooms);
/// Whether they find room.
bool findRoom(const Cluster &cluster, llvm::ArrayRef<NodeItem> items);

} // namespace heterplan
