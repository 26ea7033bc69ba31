#include "ir/NodeClasses.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
bool sameLink(const Link &a, const Link &b) {
  auto facts = [](const Link &link) {
    return std::tie(link.bandwidth, link.latency, link.allReduce, link.reduceScatter,
                    link.allGather, link.provenance, link.lookup, link.overlapLoss);
  };
  return facts(a) == facts(b);
}

/// Whether the links of the cluster lead from both alike.
bool sameLinks(const Cluster &cluster, const NodeGroup &a, const NodeGroup &b,
               const std::string &type) {
  auto bothOrNeither = [&](const std::string &place) {
    return isAt(cluster, a, type, place) == isAt(cluster, b, type, place);
  };
  return all_of(cluster.links, [&](const PlaceLink &link) {
    return bothOrNeither(link.from) && bothOrNeither(link.to);
  });
}

/// Whether devices called `type` may take each other's place in both.
bool alike(const Cluster &cluster, const NodeGroup &a, const NodeGroup &b,
           const std::string &type) {
  return a.devices.at(type) == b.devices.at(type) && a.zone == b.zone && sameLink(a.link, b.link) &&
         sameLinks(cluster, a, b, type);
}

/// Devices of one type that may take each other's place.
struct NodeClass {
  double speed = 1;                                              // as a multiple of the type's
  std::vector<std::pair<NodeGroup *, std::vector<int>>> members; // and which of its devices
};

/// The devices of `type` in a node of `group`, by speed, in the order of the first of each.
std::vector<std::pair<double, std::vector<int>>> bySpeed(const NodeGroup &group,
                                                         const std::string &type) {
  std::vector<std::pair<double, std::vector<int>>> result;
  auto stated = group.speeds.find(type);
  for (int index : group.indicesOf(type)) {
    double speed = stated == group.speeds.end() ? 1 : stated->second[index];
    auto match = find_if(result, [&](const auto &each) { return each.first == speed; });
    if (match == result.end())
      match = result.insert(result.end(), {speed, {}});
    match->second.push_back(index);
  }
  return result;
}

/// The devices of `type`, those that are alike together, in file order.
std::vector<NodeClass> classesOf(Cluster &cluster, const std::string &type) {
  std::vector<NodeClass> classes;
  for (NodeGroup &group : cluster.nodes)
    for (auto &[speed, indices] : bySpeed(group, type)) {
      auto match = find_if(classes, [&, speed = speed, &indices = indices](const NodeClass &each) {
        const auto &[first, known] = each.members.front();
        return each.speed == speed && known.size() == indices.size() &&
               alike(cluster, *first, group, type);
      });
      if (match == classes.end())
        match = classes.insert(classes.end(), {speed, {}});
      match->members.push_back({&group, std::move(indices)});
    }
  return classes;
}

/// "TYPE in NODES", "TYPE in NODES at SPEED" where `speedsDiffer`, with a mark where a type is
/// called so already.
std::string classNameOf(const std::string &type, const NodeClass &own, bool speedsDiffer,
                        ArrayRef<DeviceType> stated, ArrayRef<DeviceType> made) {
  std::string name;
  raw_string_ostream text(name);
  text << type << " in " << own.members.front().first->name;
  if (speedsDiffer)
    text << " at " << format("%g", own.speed);
  text.flush();
  auto isCalledSo = [&](const DeviceType &other) { return other.name == name; };
  while (any_of(stated, isCalledSo) || any_of(made, isCalledSo))
    name += "'";
  return name;
}

/// Calls the devices of `own` `name` in their nodes.
void rename(const NodeClass &own, const std::string &type, const std::string &name) {
  for (const auto &[group, indices] : own.members) {
    if (int(indices.size()) < group->devices.at(type))
      group->indices[name] = indices;
    group->devices[name] = int(indices.size());
  }
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
    std::vector<NodeClass> classes = classesOf(cluster, type.name);
    if (classes.size() < 2) {
      types.push_back(type);
      types.back().speed *= classes.empty() ? 1 : classes.front().speed;
      continue;
    }
    bool speedsDiffer =
        any_of(classes, [&](const NodeClass &each) { return each.speed != classes.front().speed; });
    for (const NodeClass &each : classes) {
      std::string name = classNameOf(type.name, each, speedsDiffer, cluster.types, types);
      DeviceType &own = types.emplace_back(type);
      own.statedName = type.name;
      own.name = std::move(name);
      own.speed = type.speed * each.speed;
      rename(each, type.name, own.name);
    }
    for (NodeGroup &group : cluster.nodes)
      group.devices.erase(type.name);
  }
  for (NodeGroup &group : cluster.nodes)
    group.speeds.clear();
  cluster.types = std::move(types);
  return cluster;
}

} // namespace heterplan
