#include "search/verify/bound/DeviceChoices.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostTypesInSubsets = 6; // docs/formats.md
constexpr int halvings = 4;           // all, 1/2, 1/4, 1/8
constexpr size_t mostMixes = 16'384;
constexpr double mostWays = 1e5;

/// The less in every part.
CollectiveCost lesser(const CollectiveCost &a, const CollectiveCost &b) {
  return {std::min(a.latency, b.latency), std::min(a.secondsPerByte, b.secondsPerByte),
          a.provenance, std::min(a.perRow, b.perRow)};
}

template <typename Least> Least lesser(const Least &a, const Least &b) {
  return {lesser(a.reduce, b.reduce), lesser(a.lookup, b.lookup),
          lesser(a.lookupGradient, b.lookupGradient), lesser(a.tied, b.tied),
          std::min(a.inNode, b.inNode)};
}

Link ofPair(const Link &link) {
  Link result = link;
  if (link.pairBandwidth.value() > 0)
    result.bandwidth = std::min(link.bandwidth, link.pairBandwidth);
  return result;
}

void improve(LeastLink &least, const Link &link, double devices) {
  least.latency = std::min(least.latency, link.latency);
  least.secondsPerByte = std::min(least.secondsPerByte, devices / link.bandwidth.value());
}
} // namespace

StatedSpace::StatedSpace(const Plan &plan) {
  for (StringRef limit : plan.searchSpaceLimits) {
    omitsMixes |= limit.startswith("most mixes of device types");
    omitsSpreads |= limit.startswith("stages in more nodes than they fill");
    omitsPieces |= limit.startswith("sharing of a node that a stage uses in part");
  }
}

DeviceChoices::DeviceChoices(const Plan &plan, const Cluster &cluster)
    : space(plan), plan(plan), cluster(cluster) {
  readLimits();
  checkSize();
  if (!reason.empty())
    return;
  for (int type = 0; type < int(cluster.types.size()); ++type) {
    counts.emplace_back(1);
    for (int count = 1; count <= available(type); ++count)
      counts.back().push_back(costsOf({{type, count}}));
  }
  if (space.omitsMixes)
    listPartsOfAll();
  else
    listAllMixes();
}

void DeviceChoices::readLimits() {
  for (int type = 0; type < int(cluster.types.size()); ++type) {
    const DeviceType &device = cluster.types[size_t(type)];
    int limit = cluster.deviceCount(type), smallest = 0, all = 0;
    for (const DeviceLimit &each : plan.deviceLimits)
      if (each.type == device.stated())
        limit = std::min(limit, each.most);
    for (const NodeGroup &group : cluster.nodes)
      if (auto entry = group.devices.find(device.name);
          entry != group.devices.end() && entry->second > 0) {
        smallest = smallest ? std::min(smallest, entry->second) : entry->second;
        all += group.count;
      }
    limits.push_back(limit);
    perNode.push_back(smallest);
    nodes.push_back(all);
  }
}

/// Without work that grows with the devices: a cluster may have millions.
void DeviceChoices::checkSize() {
  std::set<std::string> names;
  double ways = 0; // in which devices of one type may lie in nodes
  for (int type = 0; type < int(limits.size()); ++type) {
    if (available(type) == 0)
      continue;
    if (!names.insert(cluster.types[size_t(type)].stated()).second)
      reason = "bounds for a device type in unequal nodes are not checked";
    const double used = std::min(available(type), nodes[size_t(type)]);
    ways += available(type) * (space.omitsSpreads ? 1 : used * perNode[size_t(type)]);
  }
  if (reason.empty() && ways > mostWays)
    reason = "there are too many ways to place devices in nodes";
}

/// The ways in which devices of a type may lie in its nodes.
std::vector<Spread> DeviceChoices::spreadsOf(int type, int devices) const {
  const int room = std::max(1, perNode[size_t(type)]);
  const int fewest = (devices + room - 1) / room;
  std::vector<Spread> result{{fewest, std::min(devices, room)}};
  for (int used = fewest; !space.omitsSpreads && used <= std::min(devices, nodes[size_t(type)]);
       ++used)
    for (int most = (devices + used - 1) / used; most <= std::min(room, devices - used + 1); ++most)
      result.push_back({used, most});
  return result;
}

DeviceChoices::Least DeviceChoices::costsOf(ArrayRef<std::pair<int, int>> own) const {
  std::vector<SmallVector<Spread, 2>> ways{{}};
  for (auto [type, count] : own) {
    std::vector<SmallVector<Spread, 2>> longer;
    for (const SmallVector<Spread, 2> &way : ways)
      for (const Spread &spread : spreadsOf(type, count)) {
        longer.push_back(way);
        longer.back().push_back(spread);
      }
    ways = std::move(longer);
  }
  std::optional<Least> least;
  auto add = [&](const DeviceGroup &group, int inNode) {
    const Least other{allReduceCost(cluster, group), lookupCost(cluster, group),
                      lookupGradientCost(cluster, group), tiedSumCost(cluster, group), inNode};
    least = least ? lesser(*least, other) : other;
  };
  for (const SmallVector<Spread, 2> &way : ways) {
    int inNode = way.front().inNode;
    for (const Spread &spread : way)
      inNode = std::min(inNode, spread.inNode);
    DeviceGroup group = spreadGroup(cluster, own, way);
    add(group, inNode);
    if (own.size() < 2 || !mayLieInOneNode(cluster, group))
      continue;
    group.inOneNode = true;
    add(group, inNode);
  }
  return *least;
}

/// Whole nodes, and for the rest the smallest piece of a node that holds it: a node is divided by
/// its smallest prime factors, again and again.
int DeviceChoices::slotsOf(int type, int devices) const {
  const int room = perNode[size_t(type)];
  const bool isLimited = available(type) < cluster.deviceCount(type);
  if (!space.omitsPieces || isLimited || nodes[size_t(type)] < 2 || devices % room == 0)
    return devices;
  const int rest = devices % room;
  int piece = room;
  for (int prime = 2; prime <= piece;)
    if (piece % prime != 0)
      ++prime;
    else if (piece / prime < rest)
      break;
    else
      piece /= prime;
  return std::max(devices, std::min(devices - rest + piece, available(type)));
}

/// The fastest link to any other stage. `isAlone`: no other stage lies in a node of these devices.
LeastLink DeviceChoices::linkOf(ArrayRef<std::pair<int, int>> own, int inNode,
                                bool &isAlone) const {
  LeastLink least{cluster.network.latency, inNode / cluster.network.bandwidth.value()};
  for (const Zone &zone : cluster.zones)
    improve(least, zone.network, inNode);
  for (const PlaceLink &link : cluster.links)
    improve(least, link.network, inNode);
  isAlone = true;
  for (const NodeGroup &group : cluster.nodes) {
    int devices = 0;
    for (const auto &each : group.devices)
      devices += each.second;
    const bool hasType = any_of(own, [&](const auto &each) {
      auto entry = group.devices.find(cluster.types[size_t(each.first)].name);
      return entry != group.devices.end() && entry->second > 0;
    });
    if (!hasType || inNode >= devices)
      continue;
    isAlone = false;
    improve(least, ofPair(group.link), 1);
  }
  return least;
}

bool hasNoSlowerLinks(const DeviceChoice &a, const DeviceChoice &b) {
  if (a.inNode > b.inNode || a.inNode * a.share > b.inNode * b.share)
    return false;
  return b.isAlone || (!a.isMixed() && !b.isMixed() && a.type() == b.type() &&
                       a.fewest <= b.fewest && a.share <= b.share);
}

NeighbourLink DeviceChoices::between(const DeviceChoice &before, const DeviceChoice &behind) const {
  NeighbourLink result;
  result.network = {cluster.network.latency, 1 / cluster.network.bandwidth.value()};
  for (const Zone &zone : cluster.zones)
    improve(result.network, zone.network, 1);
  for (const PlaceLink &link : cluster.links)
    improve(result.network, link.network, 1);
  result.share = double(std::max(before.share, behind.share));
  result.through = double(std::max(before.inNode * before.share, behind.inNode * behind.share));
  result.before = before.inNode;
  result.behind = behind.inNode;
  std::vector<int> both(cluster.types.size(), 0); // devices of each type, at least
  for (const DeviceChoice *each : {&before, &behind})
    for (auto [type, slots] : each->slots)
      both[size_t(type)] += each->isMixed() ? slots : each->fewest;
  for (const NodeGroup &group : cluster.nodes) {
    bool hasRoom = true;
    for (size_t type = 0; type < both.size(); ++type) {
      auto entry = group.devices.find(cluster.types[type].name);
      hasRoom &= both[type] <= (entry == group.devices.end() ? 0 : entry->second);
    }
    if (!hasRoom)
      continue;
    const Link link = ofPair(group.link);
    if (!result.mayMeet)
      result.inside = {link.latency, 1 / link.bandwidth.value()};
    improve(result.inside, link, 1);
    result.mayMeet = true;
  }
  return result;
}

/// Stages divide each type of a node, so that the average of their parts of its types counts.
double DeviceChoices::partOfNode(const DeviceChoice &choice) const {
  double least = 2;
  for (const NodeGroup &group : cluster.nodes) {
    double sum = 0, most = 0;
    int kinds = 0;
    for (const auto &each : group.devices)
      kinds += each.second > 0;
    for (auto [type, slots] : choice.slots) {
      auto entry = group.devices.find(cluster.types[size_t(type)].name);
      const double part = entry == group.devices.end() || entry->second == 0
                              ? 2
                              : double(choice.isMixed() ? slots : choice.fewest) / entry->second;
      sum += part;
      most = std::max(most, part);
    }
    if (most <= 1)
      least = std::min(least, sum / kinds);
  }
  return least;
}

int DeviceChoices::unitsOfNode() const {
  constexpr int most = 16;
  int units = 1;
  for (const NodeGroup &group : cluster.nodes)
    for (const auto &each : group.devices)
      units = std::max(units, each.second * int(group.devices.size()));
  return std::min(units, most);
}

DeviceChoice DeviceChoices::choice(int type, int64_t share, int fewest, int most) const {
  const std::vector<Least> &list = counts[size_t(type)];
  Least least = list[size_t(fewest)];
  for (int devices = fewest + 1; devices <= most; ++devices)
    least = lesser(least, list[size_t(devices)]);
  bool isAlone = true;
  const LeastLink link = linkOf({{type, fewest}}, least.inNode, isAlone);
  // Stages that share a node divide it as they like.
  return {{{type, isAlone ? slotsOf(type, fewest) : fewest}},
          share,
          fewest,
          most,
          least.reduce,
          least.lookup,
          least.lookupGradient,
          least.tied,
          link,
          least.inNode,
          isAlone};
}

void DeviceChoices::addMix(const std::vector<int> &own, bool wholeModelOnly) {
  DeviceChoice mix;
  for (int type = 0; type < int(own.size()); ++type)
    if (own[size_t(type)] > 0)
      mix.slots.push_back({type, own[size_t(type)]});
  if (mix.slots.size() < 2)
    return;
  mix.fewest = mix.most = std::accumulate(own.begin(), own.end(), 0);
  const Least least = costsOf(mix.slots);
  mix.reduce = least.reduce;
  mix.lookup = least.lookup;
  mix.lookupGradient = least.lookupGradient;
  mix.tied = least.tied;
  bool isAlone = true;
  mix.link = linkOf(mix.slots, /*inNode=*/1, isAlone);
  mix.isAlone = isAlone;
  mix.wholeModelOnly = wholeModelOnly;
  mixes.push_back(std::move(mix));
}

/// Each set of types, with all of their devices, half of each, and so on.
void DeviceChoices::listPartsOfAll() {
  std::set<std::vector<int>> seen;
  const int types = std::min(int(limits.size()), mostTypesInSubsets);
  for (unsigned subset = 1; subset < (1U << types); ++subset)
    for (int halving = 0; halving < halvings; ++halving) {
      std::vector<int> own(limits.size(), 0);
      for (int type = 0; type < types; ++type)
        if (subset >> type & 1)
          own[size_t(type)] = available(type) >> halving;
      if (seen.insert(own).second)
        addMix(own, /*wholeModelOnly=*/true);
    }
}

void DeviceChoices::listAllMixes() {
  std::vector<std::vector<int>> all{{}};
  for (int limit : limits) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int> &own : all)
      for (int count = 0; count <= limit; ++count) {
        longer.push_back(own);
        longer.back().push_back(count);
      }
    all = std::move(longer);
    if (all.size() > mostMixes) {
      reason = "there are too many mixes of device types";
      return;
    }
  }
  for (const std::vector<int> &own : all)
    addMix(own, /*wholeModelOnly=*/false);
}

std::vector<DeviceChoice> DeviceChoices::choicesFor(int64_t batch) const {
  std::vector<DeviceChoice> result;
  for (int type = 0; type < int(cluster.types.size()); ++type) {
    const int64_t devices = std::min<int64_t>(batch, available(type));
    for (int64_t fewest = 1; fewest <= devices;) {
      const int64_t share = (batch + fewest - 1) / fewest;
      const int64_t most = share == 1 ? devices : std::min(devices, (batch - 1) / (share - 1));
      result.push_back(choice(type, share, int(fewest), int(most)));
      fewest = most + 1;
    }
  }
  for (const DeviceChoice &mix : mixes)
    if (mix.fewest <= batch) {
      result.push_back(mix);
      result.back().share = (batch + mix.fewest - 1) / mix.fewest;
    }
  return result;
}

} // namespace heterplan
