// The training state that devices get when one plan follows another: a resumed training moves it.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// Bytes that the devices of one node get.
struct NodeMove {
  std::string node;
  Bytes bytes{};
};

/// State is parameters and what the optimizer keeps of them; statistics of batch normalisation,
/// which are small, do not count.
struct StateMoves {
  Bytes moved{};               // to devices that did not hold it
  Bytes held{};                // by all devices of the new plan
  std::vector<NodeMove> nodes; // that get some, by name
};

/// The state that the devices of `after` hold and did not hold under `before`. Devices are the same
/// if they have the same type, node and index, and both plans name all of them. Both are of the
/// model `graph`, which states its layers for the degrees of both. A device holds the parameters
/// that all devices of its replica have, and its slice of the others.
StateMoves stateMoves(const Plan &before, const Plan &after, const LayerGraph &graph);

/// `plan` on other devices of `cluster` that are alike, such that less state moves from `before`:
/// nodes with the same devices and links change places, and devices of one type within a node. Its
/// prediction stays. `plan` itself if nothing is gained. A device of `plan` and of `cluster` may
/// stand for several (Cluster::shardDegree); `before` names all.
Plan keepDevices(const Plan &plan, const Plan &before, const LayerGraph &graph,
                 const Cluster &cluster);

/// The time in which the nodes get `moves`, all at once over the network: that of the node that
/// gets most. `cluster` may be one of groups of devices, which have a part of the network each.
Seconds moveTime(const StateMoves &moves, const Cluster &cluster);

/// `before`, whose devices stand for as many as those of `cluster`, without the devices that
/// `cluster` does not have. The other replicas of a stage take their samples, in proportion to
/// those that they have. Empty if a stage has no replica left.
std::optional<Plan> withoutLostDevices(const Plan &before, const Cluster &cluster);

} // namespace heterplan
