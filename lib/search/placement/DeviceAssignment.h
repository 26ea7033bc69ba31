// Which physical devices a placement gets.
#pragma once

#include "ir/Cluster.h"
#include "search/placement/Evaluator.h"
#include "search/placement/NodePacking.h"

#include <vector>

namespace heterplan {

/// For each stage of `placement` the devices of its group, type by type in group order. Stages that
/// fill nodes take them node by node, largest groups first; other stages take any room
/// (NodePacking). `rooms` is that of the SearchSpace. The placement must fit the cluster.
std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, llvm::ArrayRef<TypeRoom> rooms);

/// States of each stage of several types of `placement`, and of each two neighbours, which have
/// `devices`, whether they lie in one node of several.
void stateNodeSharing(const Cluster &cluster, llvm::ArrayRef<std::vector<DeviceRef>> devices,
                      Placement &placement);

/// Items of `placement` whose nodes matter: items of types that some stage combines with other
/// types in one node come first.
std::vector<NodeItem> nodeItemsOf(const Cluster &cluster, const Placement &placement,
                                  llvm::ArrayRef<TypeRoom> rooms);
/// Whether they find room.
bool findRoom(const Cluster &cluster, llvm::ArrayRef<NodeItem> items);

} // namespace heterplan
