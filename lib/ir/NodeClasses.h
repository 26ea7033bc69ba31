// Node classes: the devices of one type that lie in nodes of one kind. If a type lies in unlike
// nodes, a plan that keeps to the better ones must not be charged for the others.
#pragma once

#include "ir/Cluster.h"

namespace heterplan {

/// Whether `node` is the name of one of the nodes of `group`.
bool isNodeOf(const NodeGroup &group, llvm::StringRef node);

/// `cluster` with each device type that lies in nodes of unlike sizes, links or zones, or has
/// devices of unlike speeds, replaced by one type for each of these, called "TYPE in NODES" (NODES:
/// the first group of nodes of the class) or "TYPE in NODES at SPEED", or otherwise where a type is
/// called so, of which DeviceType::stated is TYPE. Types whose devices are alike keep their name.
/// Speeds of devices become those of types.
Cluster separateNodeClasses(Cluster cluster);

} // namespace heterplan
