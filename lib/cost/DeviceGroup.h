// The devices of a stage: how many of each type, and how they lie in the nodes of the cluster.
#pragma once

#include "ir/Cluster.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <utility>

namespace heterplan {

/// How the devices of one type of a group lie in nodes.
struct Spread {
  int nodes = 0;
  int inNode = 0; // most of them in one node
  bool operator==(const Spread &) const = default;
};

/// How many devices of each type; ascending types, counts positive.
struct DeviceGroup {
  llvm::SmallVector<std::pair<int, int>, 2> counts; // (type, count)
  /// By type of `counts`. Empty where they fill nodes: `count` devices of a type with d in each
  /// node lie in ⌈count/d⌉ nodes.
  llvm::SmallVector<Spread, 2> spread = {};
  /// For a group of several types: whether all its devices lie in one of several nodes
  /// (mayLieInOneNode).
  bool inOneNode = false;
  /// Whether all its devices lie in the node that the whole stage before it, or behind it, lies in.
  bool besideBefore = false, besideNext = false;

  int deviceCount() const;
  /// Replicas of a stage on these devices; `shardDegree` devices hold one replica together.
  int replicas(int shardDegree = 1) const { return deviceCount() / shardDegree; }
  bool sharesNode() const { return besideBefore || besideNext; }
  bool operator==(const DeviceGroup &) const = default;
};

/// `counts` so that they lie in nodes as `spread` says, one for each; with no spread where that is
/// how they fill nodes.
DeviceGroup spreadGroup(const Cluster &cluster, llvm::ArrayRef<std::pair<int, int>> counts,
                        llvm::ArrayRef<Spread> spread);
/// Devices that each of the group's stands for, which share every layer: those of its first type.
int shardsOf(const Cluster &cluster, const DeviceGroup &group);
/// The group of some devices of the cluster.
DeviceGroup groupOf(const Cluster &cluster, llvm::ArrayRef<DeviceRef> devices);
/// How the devices of the `index`-th type of `group` lie.
Spread spreadOf(const Cluster &cluster, const DeviceGroup &group, size_t index);

/// How a group lies in the cluster.
struct GroupShape {
  int devices = 0;
  int nodes = 0;
  int devicesPerNode = 0; // most devices of the group in one node
  Link intra;             // slowest link within a node of the group
};
GroupShape shapeOf(const Cluster &cluster, const DeviceGroup &group);

/// The one node of the cluster that holds every device of all types of `groups`, or null.
const NodeGroup *commonNode(const Cluster &cluster, llvm::ArrayRef<const DeviceGroup *> groups);
/// The slower of two links in everything.
Link slower(const Link &a, const Link &b);
/// `link` as one of several senders has it that use it at once.
Link partOf(Link link, int senders);
/// The link of a node that has all types of `groups`: the slowest of all such nodes.
Link linkInNode(const Cluster &cluster, llvm::ArrayRef<const DeviceGroup *> groups);

/// Whether devices of types `a` and `b`, maybe the same, may lie in one node or in several: there
/// are several nodes that have either, and some that have both. If some types stand for several
/// devices, unlike types never do: such stages are priced over the network.
bool mayMeetInNodes(const Cluster &cluster, int a, int b);
/// Whether each two types may, one of either group.
bool mayMeetInNodes(const Cluster &cluster, const DeviceGroup &group, const DeviceGroup &other);
/// Whether devices of several types, so many as `group` has, may all lie in one of several nodes:
/// each two types may meet there, of none they are meant to be in several nodes, and some node has
/// as many of all.
bool mayLieInOneNode(const Cluster &cluster, const DeviceGroup &group);
/// Whether that is so, and they are meant to be in several nodes, where they share no interface.
bool staysApart(const Cluster &cluster, const DeviceGroup &group);
/// Whether all of a group lies in one node: all devices of its only type, or inOneNode.
bool isInOneNode(const Cluster &cluster, const DeviceGroup &group);
/// Whether a stage on `from` and the next one on `to` may lie in one of several nodes.
bool mayShareNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to);

} // namespace heterplan
