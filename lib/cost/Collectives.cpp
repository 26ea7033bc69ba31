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
LookupSpeed lookupSpeed(const Link &link) {
  return link.lookup.value_or(LookupSpeed{{link.bandwidth, link.latency}, {}});
}

/// A set of places that the devices of a group may have: nodes in one zone and at the same ends of
/// links.
struct Site {
  SmallVector<const NodeGroup *, 1> groups; // each once
  StringRef type;                           // DeviceType::stated
  std::string place;                        // zone, and ends of links

  /// One of them; all are alike.
  const NodeGroup &node() const { return *groups.front(); }
  bool isOneNode() const { return groups.size() == 1 && node().count == 1; }
};

std::vector<Site> sitesOf(const Cluster &cluster, const DeviceGroup &group) {
  std::vector<Site> sites;
  for (auto [type, count] : group.counts)
    for (const NodeGroup &node : cluster.nodes) {
      if (!node.devices.count(cluster.types[type].name))
        continue;
      Site site{{&node}, cluster.types[cluster.deviceTypeOf(type)].stated(), node.zone + '\n'};
      for (const PlaceLink &link : cluster.links)
        for (const std::string &end : {link.from, link.to})
          site.place += isAt(cluster, node, site.type, end) ? '1' : '0';
      auto known = find_if(sites, [&](const Site &other) {
        return other.place == site.place && other.type == site.type;
      });
      if (known == sites.end())
        sites.push_back(std::move(site));
      else if (!is_contained(known->groups, &node)) // not with devices of another speed
        known->groups.push_back(&node);
    }
  return sites;
}

/// Whether both are one and the same node, which needs no network to reach itself.
bool isOneNode(const Site &a, const Site &b) {
  return a.isOneNode() && b.isOneNode() && &a.node() == &b.node();
}

/// The slowest network between a node of `from` and another one of `to`.
Link networkOf(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  std::optional<Link> slowest;
  const std::vector<Site> ends = sitesOf(cluster, to);
  for (const Site &a : sitesOf(cluster, from))
    for (const Site &b : ends) {
      if (isOneNode(a, b))
        continue;
      const Link &link = networkBetween(cluster, a.node(), a.type, b.node(), b.type);
      slowest = slowest ? slower(*slowest, link) : link;
    }
  return slowest.value_or(cluster.network);
}

/// The network among the nodes of one group, as one shard has it where all of them send at once.
Link networkOf(const Cluster &cluster, const DeviceGroup &group) {
  return partOf(networkOf(cluster, group, group), shardsOf(cluster, group));
}

/// Copies over a network, which the shards of a stage share.
Copies copiesOverNetwork(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  return {shardsOf(cluster, to), shardsOf(cluster, from)};
}

/// Copies over a link within a node, which each shard has for itself.
Copies copiesInNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  const int a = shardsOf(cluster, from), b = shardsOf(cluster, to);
  return {std::max(1, b / a), std::max(1, a / b)};
}

/// `link` as two devices alone have it: in a mesh only some of its links lie between them.
Link ofPair(Link link) {
  if (link.pairBandwidth.value() > 0)
    link.bandwidth = std::min(link.bandwidth, link.pairBandwidth);
  return link;
}

/// `rounds` times around the ring, at `known` speed or else that of all-reduces.
CollectiveCost ringCost(int members, const Link &link, int rounds,
                        const std::optional<LinkSpeed> &known) {
  if (members < 2)
    return {};
  const double steps = double(rounds) * (members - 1);
  const Link used = members == 2 ? ofPair(link) : link;
  const LinkSpeed messages{used.bandwidth, used.latency};
  const LinkSpeed speed = known ? *known : link.allReduce.value_or(messages);
  return {.latency = speed.latency * steps,
          .secondsPerByte = steps / members / speed.bandwidth.value(),
          .provenance = link.provenance};
}

CollectiveCost ringCost(int members, const Link &link) {
  CollectiveCost cost = ringCost(members, link, 2, link.allReduce);
  cost.lostPerByte = link.overlapLoss * cost.secondsPerByte;
  return cost;
}

/// One time around the rings in nodes and among them. `known`: where a link has its speed.
CollectiveCost onceAround(const Cluster &cluster, const DeviceGroup &group,
                          std::optional<LinkSpeed> Link::*known) {
  if (group.deviceCount() < 2)
    return {};
  const GroupShape shape = shapeOf(cluster, group);
  const Link network = networkOf(cluster, group);
  const CollectiveCost inside = ringCost(shape.devicesPerNode, shape.intra, 1, shape.intra.*known);
  const CollectiveCost between = ringCost(shape.nodes, network, 1, network.*known);
  return {.latency = inside.latency + between.latency,
          .secondsPerByte = inside.secondsPerByte + between.secondsPerByte,
          .provenance = std::max(inside.provenance, between.provenance)};
}
} // namespace

Seconds CollectiveCost::time(Bytes size) const { return time(size != Bytes(0), size); }

Seconds CollectiveCost::time(int64_t count, Bytes size) const {
  return latency * double(count) + Seconds(secondsPerByte * size.value());
}

Seconds CollectiveCost::time(const TableRows &rows) const {
  return time(rows.bytes) + perRow * rows.count;
}

CollectiveCost allReduceCost(const Cluster &cluster, const DeviceGroup &group) {
  if (group.deviceCount() < 2)
    return {};
  GroupShape shape = shapeOf(cluster, group);
  CollectiveCost inside = ringCost(shape.devicesPerNode, shape.intra);
  CollectiveCost between = ringCost(shape.nodes, networkOf(cluster, group));
  return {.latency = inside.latency + between.latency,
          .secondsPerByte = inside.secondsPerByte + between.secondsPerByte,
          .provenance = std::max(inside.provenance, between.provenance),
          .lostPerByte = inside.lostPerByte + between.lostPerByte};
}

CollectiveCost tiedSumCost(const Cluster &cluster, const DeviceGroup &group) {
  DeviceGroup all;
  for (size_t type = 0; type < cluster.types.size(); ++type)
    if (int count = cluster.deviceCount(int(type)); count > 0 && cluster.types[type].ofType < 0)
      all.counts.push_back({int(type), count});
  Link link = collectiveLink(cluster, all);
  if (shapeOf(cluster, all).nodes > 1)
    link = partOf(std::move(link), shardsOf(cluster, group));
  return ringCost(2 * group.deviceCount(), link);
}

CollectiveCost reduceScatterCost(const Cluster &cluster, const DeviceGroup &group) {
  CollectiveCost cost = allReduceCost(cluster, group);
  return {cost.latency / 2, cost.secondsPerByte / 2, cost.provenance};
}

CollectiveCost shardCollectiveCost(const Cluster &cluster, const DeviceGroup &group,
                                   ShardCollective collective) {
  if (collective == ShardCollective::AllReduce)
    return allReduceCost(cluster, group);
  return onceAround(cluster, group,
                    collective == ShardCollective::AllGather ? &Link::allGather
                                                             : &Link::reduceScatter);
}

Link collectiveLink(const Cluster &cluster, const DeviceGroup &group) {
  GroupShape shape = shapeOf(cluster, group);
  return shape.nodes == 1 ? shape.intra : networkOf(cluster, group);
}

Seconds allReduceTime(const Cluster &cluster, const DeviceGroup &group, Bytes size) {
  return allReduceCost(cluster, group).time(size);
}

CollectiveCost lookupGradientCost(const Cluster &cluster, const DeviceGroup &group) {
  if (group.deviceCount() < 2)
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
  TransferPath other{link, receivers, senders, network, copies.reversed()};
  if (network) {
    std::swap(other.network->senders, other.network->receivers);
    other.network->copies = network->copies.reversed();
  }
  return other;
}

Seconds TransferPath::time(Samples fromShare, Samples toShare, Bytes perSample, Bytes fixed) const {
  if (perSample == Bytes(0) && fixed == Bytes(0))
    return Seconds(0);
  auto over = [&](BytesPerSecond bandwidth, Seconds latency, int sending, int receiving,
                  Copies many) {
    int64_t samples = std::max(sending * fromShare.value(), receiving * toShare.value());
    const Bytes once = perSample * double(samples) + fixed * double(receiving);
    return latency + once * double(many.forth) / bandwidth;
  };
  const Seconds time = over(link.bandwidth, link.latency, senders, receivers, copies);
  if (!network)
    return time;
  return std::min(time, over(network->speed.bandwidth, network->speed.latency, network->senders,
                             network->receivers, network->copies));
}

TransferPath pathInNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  const Link network = networkOf(cluster, from, to);
  return {ofPair(linkInNode(cluster, {&from, &to})), 1, 1,
          TransferPath::Network{{network.bandwidth, network.latency},
                                shapeOf(cluster, from).devicesPerNode,
                                shapeOf(cluster, to).devicesPerNode,
                                copiesOverNetwork(cluster, from, to)},
          copiesInNode(cluster, from, to)};
}

TransferPath transferPath(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to) {
  if (const NodeGroup *node = commonNode(cluster, {&from, &to}))
    return {ofPair(node->link), 1, 1, std::nullopt, copiesInNode(cluster, from, to)};
  if (from.besideNext && to.besideBefore)
    return pathInNode(cluster, from, to);
  return {networkOf(cluster, from, to), shapeOf(cluster, from).devicesPerNode,
          shapeOf(cluster, to).devicesPerNode, std::nullopt, copiesOverNetwork(cluster, from, to)};
}

TransferPath nestedTransferPath(const Cluster &cluster, const DeviceGroup &from,
                                const DeviceGroup &to) {
  GroupShape larger = shapeOf(cluster, from.deviceCount() > to.deviceCount() ? from : to);
  if (larger.nodes == 1)
    return {ofPair(larger.intra), 1, 1};
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
  if (const int shards = shardsOf(cluster, group); shards > 1)
    place += "\nshards " + std::to_string(shards);
  return place;
}

Seconds transferTime(const Cluster &cluster, const DeviceGroup &from, Samples fromShare,
                     const DeviceGroup &to, Samples toShare, Bytes perSample, Bytes fixed) {
  return transferPath(cluster, from, to).time(fromShare, toShare, perSample, fixed);
}

FastestPath::FastestPath(const Cluster &cluster, const DeviceGroup &group, bool inNode) {
  Link best = cluster.network;
  auto improve = [&](const Link &link) {
    best.bandwidth = std::max(best.bandwidth, link.bandwidth);
    best.latency = std::min(best.latency, link.latency);
  };
  for (const Zone &zone : cluster.zones)
    improve(zone.network);
  for (const PlaceLink &link : cluster.links)
    improve(link.network);
  const Copies copies{shardsOf(cluster, group), 1}; // that arrive
  across = {best, shapeOf(cluster, group).devicesPerNode, 1, std::nullopt, copies};
  if (inNode || commonNode(cluster, {&group}))
    inside = TransferPath{linkInNode(cluster, {&group}), 1, 1};
}

Seconds FastestPath::leastTime(Samples share, Bytes perSample, Bytes fixed) const {
  if (perSample == Bytes(0) && fixed == Bytes(0))
    return Seconds(0);
  Seconds least = across.time(share, Samples(0), perSample, fixed);
  return inside ? std::min(least, inside->time(share, Samples(0), perSample, fixed)) : least;
}

Seconds leastTransferTime(const Cluster &cluster, const DeviceGroup &group, bool inNode,
                          Samples share, Bytes perSample, Bytes fixed) {
  return FastestPath(cluster, group, inNode).leastTime(share, perSample, fixed);
}

} // namespace heterplan
