#include "ir/NodeClasses.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
bool sameLink(const Link &a, const Link &b) {
  return std::tie(a.bandwidth, a.latency, a.allReduce, a.provenance) ==
         std::tie(b.bandwidth, b.latency, b.allReduce, b.provenance);
}

/// Whether devices called `type` may take each other's place in both.
bool alike(const NodeGroup &a, const NodeGroup &b, const std::string &type) {
  return a.devices.at(type) == b.devices.at(type) && a.zone == b.zone && sameLink(a.link, b.link);
}

/// The groups of nodes that have `type`, those that are alike together, in file order.
std::vector<std::vector<NodeGroup *>> classesOf(Cluster &cluster, const std::string &type) {
  std::vector<std::vector<NodeGroup *>> classes;
  for (NodeGroup &group : cluster.nodes) {
    if (!group.devices.count(type))
      continue;
    auto match =
        find_if(classes, [&](const auto &nodes) { return alike(*nodes.front(), group, type); });
    if (match == classes.end())
      match = classes.insert(classes.end(), std::vector<NodeGroup *>());
    match->push_back(&group);
  }
  return classes;
}
/// "TYPE in NODES", with a mark where a type is called so already.
std::string classNameOf(const std::string &type, const NodeGroup &nodes,
                        ArrayRef<DeviceType> stated, ArrayRef<DeviceType> made) {
  std::string name = type + " in " + nodes.name;
  auto isCalledSo = [&](const DeviceType &other) { return other.name == name; };
  while (any_of(stated, isCalledSo) || any_of(made, isCalledSo))
    name += "'";
  return name;
}
} // namespace

bool isNodeOf(const NodeGroup &group, StringRef node) {
  if (group.count == 1)
    return node == group.name;
  int index = 0;
  if (!node.consume_front(group.name) || !node.consume_front("-"))
    return false;
  return !node.getAsInteger(10, index) && index >= 0 && index < group.count &&
         node == std::to_string(index);
}

Cluster separateNodeClasses(Cluster cluster) {
  std::vector<DeviceType> types;
  for (const DeviceType &type : cluster.types) {
    std::vector<std::vector<NodeGroup *>> classes = classesOf(cluster, type.name);
    if (classes.size() < 2) {
      types.push_back(type);
      continue;
    }
    for (const std::vector<NodeGroup *> &nodes : classes) {
      std::string name = classNameOf(type.name, *nodes.front(), cluster.types, types);
      DeviceType &own = types.emplace_back(type);
      own.statedName = type.name;
      own.name = std::move(name);
      for (NodeGroup *group : nodes) {
        auto devices = group->devices.extract(type.name);
        devices.key() = own.name;
        group->devices.insert(std::move(devices));
      }
    }
  }
  cluster.types = std::move(types);
  return cluster;
}

} // namespace heterplan
