#include "cost/DeviceGroup.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

using namespace llvm;

namespace heterplan {

namespace {
/// Unknown if that of either link is.
std::optional<LinkSpeed> slower(const std::optional<LinkSpeed> &a,
                                const std::optional<LinkSpeed> &b) {
  if (!a || !b)
    return std::nullopt;
  return LinkSpeed{std::min(a->bandwidth, b->bandwidth), std::max(a->latency, b->latency)};
}
} // namespace

Link slower(const Link &a, const Link &b) {
  Link result = a.bandwidth <= b.bandwidth ? a : b;
  result.latency = std::max(a.latency, b.latency);
  auto ofPair = [](const Link &link) {
    return link.pairBandwidth.value() > 0 ? link.pairBandwidth : link.bandwidth;
  };
  result.pairBandwidth = std::min(ofPair(a), ofPair(b));
  result.provenance = std::max(a.provenance, b.provenance);
  result.overlapLoss = std::max(a.overlapLoss, b.overlapLoss);
  result.allReduce = slower(a.allReduce, b.allReduce);
  result.reduceScatter = slower(a.reduceScatter, b.reduceScatter);
  result.allGather = slower(a.allGather, b.allGather);
  result.lookup.reset();
  if (a.lookup && b.lookup)
    result.lookup = {{std::min(a.lookup->messages.bandwidth, b.lookup->messages.bandwidth),
                      std::max(a.lookup->messages.latency, b.lookup->messages.latency)},
                     std::max(a.lookup->row, b.lookup->row)};
  return result;
}

Link partOf(Link link, int senders) {
  auto divide = [senders](BytesPerSecond &bandwidth) {
    bandwidth = BytesPerSecond(bandwidth.value() / senders);
  };
  divide(link.bandwidth);
  divide(link.pairBandwidth);
  for (std::optional<LinkSpeed> *known : {&link.allReduce, &link.reduceScatter, &link.allGather})
    if (*known)
      divide((*known)->bandwidth);
  if (link.lookup)
    divide(link.lookup->messages.bandwidth);
  return link;
}

namespace {
/// The places of the devices of one type, over the whole cluster. Groups of unequal nodes are
/// priced by their smallest node and slowest link, so that the price does not depend on which ones
/// are taken.
struct TypeTopology {
  int nodes = 0;
  int devicesPerNode = 0;
  const NodeGroup *only = nullptr; // set when all its devices lie in one node
  Link intra;
};

TypeTopology topologyOf(const Cluster &cluster, int type) {
  TypeTopology topology;
  for (const NodeGroup &group : cluster.nodes) {
    auto entry = group.devices.find(cluster.types[type].name);
    if (entry == group.devices.end() || entry->second <= 0)
      continue;
    bool first = topology.nodes == 0;
    topology.only = first && group.count == 1 ? &group : nullptr;
    topology.devicesPerNode =
        first ? entry->second : std::min(topology.devicesPerNode, entry->second);
    topology.intra = first ? group.link : slower(topology.intra, group.link);
    topology.nodes += group.count;
  }
  return topology;
}

/// Whether two devices of these types lie in one node, of all that have the types the smallest.
bool lieTogether(const Cluster &cluster, int a, int b) {
  if (a == b)
    return topologyOf(cluster, a).devicesPerNode > 1;
  auto has = [&](const NodeGroup &group, int type) {
    auto entry = group.devices.find(cluster.types[type].name);
    return entry != group.devices.end() && entry->second > 0;
  };
  return any_of(cluster.nodes,
                [&](const NodeGroup &group) { return has(group, a) && has(group, b); });
}
} // namespace

const NodeGroup *commonNode(const Cluster &cluster, ArrayRef<const DeviceGroup *> groups) {
  const NodeGroup *common = nullptr;
  for (const DeviceGroup *group : groups)
    for (auto [type, count] : group->counts) {
      const NodeGroup *only = topologyOf(cluster, type).only;
      if (!only || (common && common != only))
        return nullptr;
      common = only;
    }
  return common;
}

Link linkInNode(const Cluster &cluster, ArrayRef<const DeviceGroup *> groups) {
  std::optional<Link> slowest;
  for (const DeviceGroup *group : groups)
    for (const auto &count : group->counts) {
      const Link link = topologyOf(cluster, count.first).intra;
      slowest = slowest ? slower(*slowest, link) : link;
    }
  return *slowest;
}

int DeviceGroup::deviceCount() const {
  return std::accumulate(counts.begin(), counts.end(), 0,
                         [](int sum, auto entry) { return sum + entry.second; });
}

Spread spreadOf(const Cluster &cluster, const DeviceGroup &group, size_t index) {
  if (!group.spread.empty())
    return group.spread[index];
  auto [type, count] = group.counts[index];
  TypeTopology topology = topologyOf(cluster, type);
  int inNode = std::max(1, std::min(count, topology.devicesPerNode));
  return {std::min((count + inNode - 1) / inNode, topology.nodes), inNode};
}

DeviceGroup spreadGroup(const Cluster &cluster, ArrayRef<std::pair<int, int>> counts,
                        ArrayRef<Spread> spread) {
  DeviceGroup group;
  group.counts.assign(counts.begin(), counts.end());
  for (size_t i = 0; i < counts.size(); ++i)
    if (spread[i] != spreadOf(cluster, group, i)) {
      group.spread.assign(spread.begin(), spread.end());
      break;
    }
  return group;
}

DeviceGroup groupOf(const Cluster &cluster, ArrayRef<DeviceRef> devices) {
  std::map<int, std::map<std::string, int>> inNodes; // by type and node
  std::set<StringRef> nodesOfAll;
  for (const DeviceRef &device : devices) {
    ++inNodes[cluster.typeIndex(device)][device.node];
    nodesOfAll.insert(device.node);
  }
  SmallVector<std::pair<int, int>, 2> counts;
  SmallVector<Spread, 2> spread;
  for (const auto &[type, nodes] : inNodes) {
    counts.push_back({type, 0});
    spread.push_back({static_cast<int>(nodes.size()), 0});
    for (const auto &[node, count] : nodes) {
      counts.back().second += count;
      spread.back().inNode = std::max(spread.back().inNode, count);
    }
  }
  DeviceGroup group = spreadGroup(cluster, counts, spread);
  group.inOneNode = nodesOfAll.size() == 1 && mayLieInOneNode(cluster, group);
  return group;
}

GroupShape shapeOf(const Cluster &cluster, const DeviceGroup &group) {
  GroupShape shape;
  shape.devices = group.deviceCount();
  if (const NodeGroup *node = commonNode(cluster, {&group})) {
    shape.nodes = 1;
    shape.devicesPerNode = shape.devices;
    shape.intra = node->link;
    return shape;
  }
  if (group.inOneNode)
    return {shape.devices, 1, shape.devices, linkInNode(cluster, {&group})};
  for (size_t i = 0; i < group.counts.size(); ++i) {
    TypeTopology topology = topologyOf(cluster, group.counts[i].first);
    assert(topology.devicesPerNode > 0 && "group of a type that the cluster does not have");
    const Link &link = topology.intra;
    Spread spread = spreadOf(cluster, group, i);
    shape.intra = shape.nodes == 0 ? link : slower(shape.intra, link);
    shape.nodes += spread.nodes;
    shape.devicesPerNode = std::max(shape.devicesPerNode, spread.inNode);
  }
  return shape;
}

int shardsOf(const Cluster &cluster, const DeviceGroup &group) {
  return cluster.types[group.counts.front().first].shards;
}

bool mayMeetInNodes(const Cluster &cluster, int a, int b) {
  if (a != b && cluster.hasShardTypes())
    return false;
  const DeviceGroup one{{{a, 1}}}, other{{{b, 1}}};
  return !commonNode(cluster, {&one, &other}) && lieTogether(cluster, a, b);
}

bool mayMeetInNodes(const Cluster &cluster, const DeviceGroup &group, const DeviceGroup &other) {
  return all_of(group.counts, [&](const auto &a) {
    return all_of(other.counts,
                  [&](const auto &b) { return mayMeetInNodes(cluster, a.first, b.first); });
  });
}

bool mayLieInOneNode(const Cluster &cluster, const DeviceGroup &group) {
  if (group.counts.size() < 2)
    return false;
  for (size_t i = 0; i < group.counts.size(); ++i) {
    if (spreadOf(cluster, group, i).nodes > 1)
      return false;
    for (size_t j = 0; j < i; ++j)
      if (!mayMeetInNodes(cluster, group.counts[j].first, group.counts[i].first))
        return false;
  }
  return any_of(cluster.nodes, [&](const NodeGroup &node) {
    return all_of(group.counts, [&](const auto &count) {
      auto own = node.devices.find(cluster.types[count.first].name);
      return own != node.devices.end() && own->second >= count.second;
    });
  });
}

bool staysApart(const Cluster &cluster, const DeviceGroup &group) {
  return !group.inOneNode && mayLieInOneNode(cluster, group);
}

bool isInOneNode(const Cluster &cluster, const DeviceGroup &group) {
  return group.inOneNode || (group.counts.size() == 1 && spreadOf(cluster, group, 0).nodes == 1);
}

bool mayShareNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  if (!isInOneNode(cluster, from) || !isInOneNode(cluster, to) ||
      !mayMeetInNodes(cluster, from, to))
    return false;
  return all_of(from.counts, [&](const auto &own) {
    auto same = find_if(to.counts, [&](const auto &other) { return other.first == own.first; });
    return same == to.counts.end() ||
           own.second + same->second <= topologyOf(cluster, own.first).devicesPerNode;
  });
}

} // namespace heterplan
