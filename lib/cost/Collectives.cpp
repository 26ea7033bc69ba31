#include "cost/Collectives.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <optional>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// Where devices of one type lie, over the whole cluster. Groups of unequal nodes are priced by
/// their smallest node and slowest link, so that the price does not depend on which ones are taken.
struct TypeTopology {
  int nodes = 0;
  int devicesPerNode = 0;
  const NodeGroup *only = nullptr; // set when all its devices lie in one node
  Link intra;
};

Link slower(const Link &a, const Link &b) {
  Link result = a.bandwidth <= b.bandwidth ? a : b;
  result.latency = std::max(a.latency, b.latency);
  result.provenance = std::max(a.provenance, b.provenance);
  if (a.allReduce && b.allReduce)
    result.allReduce = {std::min(a.allReduce->bandwidth, b.allReduce->bandwidth),
                        std::max(a.allReduce->latency, b.allReduce->latency)};
  else
    result.allReduce.reset();
  result.lookup.reset();
  if (a.lookup && b.lookup)
    result.lookup = {{std::min(a.lookup->messages.bandwidth, b.lookup->messages.bandwidth),
                      std::max(a.lookup->messages.latency, b.lookup->messages.latency)},
                     std::max(a.lookup->row, b.lookup->row)};
  return result;
}

LookupSpeed lookupSpeed(const Link &link) {
  return link.lookup.value_or(LookupSpeed{{link.bandwidth, link.latency}, {}});
}

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

/// The one node that holds every device of all types of `groups`, or null.
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

/// Of a node that has all types of `groups`: of all nodes of these the slowest.
Link linkInNode(const Cluster &cluster, ArrayRef<const DeviceGroup *> groups) {
  std::optional<Link> slowest;
  for (const DeviceGroup *group : groups)
    for (const auto &count : group->counts) {
      const Link link = topologyOf(cluster, count.first).intra;
      slowest = slowest ? slower(*slowest, link) : link;
    }
  return *slowest;
}

bool isInOneNode(const Cluster &cluster, const DeviceGroup &group) {
  return group.inOneNode || (group.counts.size() == 1 && spreadOf(cluster, group, 0).nodes == 1);
}

/// Whether each two types may meet in nodes, one of either group.
bool mayMeetInNodes(const Cluster &cluster, const DeviceGroup &group, const DeviceGroup &other) {
  return all_of(group.counts, [&](const auto &a) {
    return all_of(other.counts,
                  [&](const auto &b) { return mayMeetInNodes(cluster, a.first, b.first); });
  });
}

/// Where devices of a group may be: nodes that are in one zone and at the same ends of links.
struct Site {
  const NodeGroup *node; // one of them
  StringRef type;        // DeviceType::stated
  std::string place;     // zone, and ends of links
};

std::vector<Site> sitesOf(const Cluster &cluster, const DeviceGroup &group) {
  std::vector<Site> sites;
  for (auto [type, count] : group.counts)
    for (const NodeGroup &node : cluster.nodes) {
      if (!node.devices.count(cluster.types[type].name))
        continue;
      Site site{&node, cluster.types[type].stated(), node.zone + '\n'};
      for (const PlaceLink &link : cluster.links)
        for (const std::string &end : {link.from, link.to})
          site.place += isAt(cluster, node, site.type, end) ? '1' : '0';
      if (none_of(sites, [&](const Site &known) {
            return known.place == site.place && known.type == site.type;
          }))
        sites.push_back(std::move(site));
    }
  return sites;
}

/// The slowest network between a node of `from` and one of `to`.
Link networkOf(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  std::optional<Link> slowest;
  const std::vector<Site> ends = sitesOf(cluster, to);
  for (const Site &a : sitesOf(cluster, from))
    for (const Site &b : ends) {
      const Link &link = networkBetween(cluster, *a.node, a.type, *b.node, b.type);
      slowest = slowest ? slower(*slowest, link) : link;
    }
  return slowest.value_or(cluster.network);
}

/// Likewise among the nodes of one group.
Link networkOf(const Cluster &cluster, const DeviceGroup &group) {
  return networkOf(cluster, group, group);
}

CollectiveCost ringCost(int members, const Link &link) {
  if (members < 2)
    return {};
  double steps = 2.0 * (members - 1);
  LinkSpeed speed = link.allReduce.value_or(LinkSpeed{link.bandwidth, link.latency});
  return {speed.latency * steps, steps / members / speed.bandwidth.value(), link.provenance};
}
} // namespace

int DeviceGroup::size() const {
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
  shape.devices = group.size();
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

Seconds CollectiveCost::time(Bytes size) const { return time(size != Bytes(0), size); }

Seconds CollectiveCost::time(int64_t count, Bytes size) const {
  return latency * double(count) + Seconds(secondsPerByte * size.value());
}

Seconds CollectiveCost::time(const TableRows &rows) const {
  return time(rows.bytes) + perRow * rows.count;
}

CollectiveCost allReduceCost(const Cluster &cluster, const DeviceGroup &group) {
  if (group.size() < 2)
    return {};
  GroupShape shape = shapeOf(cluster, group);
  CollectiveCost inside = ringCost(shape.devicesPerNode, shape.intra);
  CollectiveCost between = ringCost(shape.nodes, networkOf(cluster, group));
  return {inside.latency + between.latency, inside.secondsPerByte + between.secondsPerByte,
          std::max(inside.provenance, between.provenance)};
}

CollectiveCost reduceScatterCost(const Cluster &cluster, const DeviceGroup &group) {
  CollectiveCost cost = allReduceCost(cluster, group);
  return {cost.latency / 2, cost.secondsPerByte / 2, cost.provenance};
}

Link collectiveLink(const Cluster &cluster, const DeviceGroup &group) {
  GroupShape shape = shapeOf(cluster, group);
  return shape.nodes == 1 ? shape.intra : networkOf(cluster, group);
}

Seconds allReduceTime(const Cluster &cluster, const DeviceGroup &group, Bytes size) {
  return allReduceCost(cluster, group).time(size);
}

CollectiveCost lookupGradientCost(const Cluster &cluster, const DeviceGroup &group) {
  if (group.size() < 2)
    return {};
  GroupShape shape = shapeOf(cluster, group);
  const Link network = networkOf(cluster, group);
  const LookupSpeed inside = lookupSpeed(shape.intra), across = lookupSpeed(network);
  double devices = shape.devices, inNode = shape.devicesPerNode, outside = devices - inNode;
  CollectiveCost cost{inside.messages.latency * (inNode - 1) + across.messages.latency * outside};
  if (inNode > 1) {
    cost.secondsPerByte += (inNode - 1) / devices / inside.messages.bandwidth.value();
    cost.provenance = shape.intra.provenance;
    cost.perRow = inside.row;
  }
  if (outside > 0) {
    cost.secondsPerByte += outside / devices * inNode / across.messages.bandwidth.value();
    cost.provenance = std::max(cost.provenance, network.provenance);
    cost.perRow = std::max(cost.perRow, across.row);
  }
  return cost;
}

CollectiveCost lookupCost(const Cluster &cluster, const DeviceGroup &group) {
  constexpr double exchanges = 3; // how many rows, which, and the rows
  CollectiveCost cost = lookupGradientCost(cluster, group);
  cost.latency = cost.latency * exchanges;
  return cost;
}

TransferPath TransferPath::reversed() const {
  TransferPath other{link, receivers, senders, network};
  if (network)
    std::swap(other.network->senders, other.network->receivers);
  return other;
}

Seconds TransferPath::time(Samples fromShare, Samples toShare, Bytes perSample, Bytes fixed) const {
  if (perSample == Bytes(0) && fixed == Bytes(0))
    return Seconds(0);
  auto over = [&](BytesPerSecond bandwidth, Seconds latency, int sending, int receiving) {
    int64_t samples = std::max(sending * fromShare.value(), receiving * toShare.value());
    return latency + (perSample * double(samples) + fixed * double(receiving)) / bandwidth;
  };
  const Seconds time = over(link.bandwidth, link.latency, senders, receivers);
  if (!network)
    return time;
  return std::min(time, over(network->speed.bandwidth, network->speed.latency, network->senders,
                             network->receivers));
}

TransferPath pathInNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  const Link network = networkOf(cluster, from, to);
  return {linkInNode(cluster, {&from, &to}), 1, 1,
          TransferPath::Network{{network.bandwidth, network.latency},
                                shapeOf(cluster, from).devicesPerNode,
                                shapeOf(cluster, to).devicesPerNode}};
}

TransferPath transferPath(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  if (const NodeGroup *node = commonNode(cluster, {&from, &to}))
    return {node->link, 1, 1};
  if (from.besideNext && to.besideBefore)
    return pathInNode(cluster, from, to);
  return {networkOf(cluster, from, to), shapeOf(cluster, from).devicesPerNode,
          shapeOf(cluster, to).devicesPerNode};
}

bool mayMeetInNodes(const Cluster &cluster, int a, int b) {
  const DeviceGroup one{{{a, 1}}}, other{{{b, 1}}};
  return !commonNode(cluster, {&one, &other}) && lieTogether(cluster, a, b);
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

TransferPath nestedTransferPath(const Cluster &cluster, const DeviceGroup &from,
                                const DeviceGroup &to) {
  GroupShape larger = shapeOf(cluster, from.size() > to.size() ? from : to);
  if (larger.nodes == 1)
    return {larger.intra, 1, 1};
  return transferPath(cluster, from, to);
}

std::string placeOf(const Cluster &cluster, const DeviceGroup &group) {
  const NodeGroup *node = commonNode(cluster, {&group});
  std::set<std::string> places;
  for (const Site &site : sitesOf(cluster, group))
    places.insert(site.place);
  std::string place = node ? node->name : "";
  if (group.besideBefore) {
    place = "beside";
    for (const auto &count : group.counts)
      place += ' ' + cluster.types[count.first].name;
  }
  for (const std::string &each : places)
    place += '\n' + each;
  return place;
}

Seconds transferTime(const Cluster &cluster, const DeviceGroup &from, Samples fromShare,
                     const DeviceGroup &to, Samples toShare, Bytes perSample, Bytes fixed) {
  return transferPath(cluster, from, to).time(fromShare, toShare, perSample, fixed);
}

Seconds leastTransferTime(const Cluster &cluster, const DeviceGroup &group, bool inNode,
                          Samples share, Bytes perSample, Bytes fixed) {
  if (perSample == Bytes(0) && fixed == Bytes(0))
    return Seconds(0);
  Link best = cluster.network;
  auto improve = [&](const Link &link) {
    best.bandwidth = std::max(best.bandwidth, link.bandwidth);
    best.latency = std::min(best.latency, link.latency);
  };
  for (const Zone &zone : cluster.zones)
    improve(zone.network);
  for (const PlaceLink &link : cluster.links)
    improve(link.network);
  int perNode = shapeOf(cluster, group).devicesPerNode;
  Seconds least = TransferPath{best, perNode, 1}.time(share, Samples(0), perSample, fixed);
  if (inNode || commonNode(cluster, {&group})) {
    const TransferPath inside{linkInNode(cluster, {&group}), 1, 1};
    least = std::min(least, inside.time(share, Samples(0), perSample, fixed));
  }
  return least;
}

} // namespace heterplan
