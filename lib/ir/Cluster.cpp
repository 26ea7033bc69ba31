#include "ir/Cluster.h"

#include "ir/NodeClasses.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostDevices = 1'000'000;

bool isPositive(double value) { return std::isfinite(value) && value > 0; }
bool isNotNegative(double value) { return std::isfinite(value) && value >= 0; }

Error verifyRates(const DeviceType &type) {
  const PeakRates &rates = *type.rates;
  // The catalogue fills in what is 0.
  auto holds = type.catalogue.empty() ? isPositive : isNotNegative;
  if (holds(rates.fp32.value()) && holds(rates.memory.value()) &&
      isNotNegative(rates.tf32.value()) && isNotNegative(rates.half().value()))
    return Error::success();
  return Diagnostic(Diag::OutOfRange, type.location)
         << "device type '" << type.name
         << "' needs a positive fp32 rate and a positive memory bandwidth";
}

Error verifyOverhead(const DeviceType &type) {
  const MemoryOverhead &overhead = type.overhead;
  auto isFactor = [](double value) { return std::isfinite(value) && value >= 1; };
  if (isNotNegative(overhead.constant.value()) && isFactor(overhead.factor) &&
      isFactor(overhead.underWay) && isNotNegative(overhead.convolutions))
    return Error::success();
  return Diagnostic(Diag::OutOfRange, type.location)
         << "the memory overhead of device type '" << type.name
         << "' needs a constant that is not negative and factors of at least 1";
}

/// Fields that the catalogue fills in may be absent before it has done so.
Error verifyType(const DeviceType &type) {
  if (type.name.empty())
    return Diagnostic(Diag::MissingField, type.location) << "a device type has no name";
  bool awaitsCatalogue = !type.catalogue.empty();
  if (!isPositive(type.memory.value()) && !(awaitsCatalogue && type.memory == Bytes()))
    return Diagnostic(Diag::OutOfRange, type.location)
           << "device type '" << type.name << "' needs a positive memory size";
  if (!isPositive(type.speed))
    return Diagnostic(Diag::OutOfRange, type.location)
           << "device type '" << type.name << "' needs a positive speed";
  if (!isNotNegative(type.price.value()))
    return Diagnostic(Diag::OutOfRange, type.location)
           << "the price of device type '" << type.name << "' is negative or not finite";
  if (Error error = verifyOverhead(type))
    return error;
  if (type.rates)
    return verifyRates(type);
  return Error::success();
}

/// A link is inline, resolved, or a name that the catalogue knows.
Error verifyLink(const Link &link, const Location &place, const Twine &owner) {
  bool isNameOnly = !link.name.empty() && link.bandwidth == BytesPerSecond();
  if (isNameOnly || (isPositive(link.bandwidth.value()) && isNotNegative(link.latency.value())))
    return Error::success();
  return Diagnostic(Diag::OutOfRange, link.location.file.empty() ? place : link.location)
         << owner.str() << " needs a positive bandwidth and a latency that is not negative";
}

Error verifyDevices(const Cluster &cluster, const NodeGroup &group) {
  if (group.devices.empty())
    return Diagnostic(Diag::MissingField, group.location)
           << "node '" << group.name << "' has no devices";
  for (const auto &[type, count] : group.devices) {
    if (cluster.typeIndex(type) < 0)
      return Diagnostic(Diag::UnknownDevice, group.location)
             << "node '" << group.name << "' has devices of type '" << type
             << "', which device_types does not declare";
    if (count < 1 || int64_t(count) * group.count > mostDevices)
      return Diagnostic(Diag::OutOfRange, group.location)
             << "node '" << group.name << "' has " << int64_t(count) * group.count
             << " devices of type '" << type << "'; 1 to " << mostDevices << " are accepted";
  }
  return Error::success();
}

Error verifyZone(const Cluster &cluster, const NodeGroup &group) {
  if (group.zone.empty()) {
    if (cluster.zones.size() < 2)
      return Error::success();
    return Diagnostic(Diag::UnknownZone, group.location)
           << "node '" << group.name << "' must name its zone, since there are several";
  }
  for (const Zone &zone : cluster.zones)
    if (zone.name == group.zone)
      return Error::success();
  return Diagnostic(Diag::UnknownZone, group.location)
         << "node '" << group.name << "' is in zone '" << group.zone
         << "', which zones does not declare";
}

Error verifyNode(const Cluster &cluster, const NodeGroup &group) {
  if (group.name.empty())
    return Diagnostic(Diag::MissingField, group.location) << "a node has no name";
  if (group.count < 1 || group.count > mostDevices)
    return Diagnostic(Diag::OutOfRange, group.location)
           << "count of node '" << group.name << "' is " << group.count << "; 1 to " << mostDevices
           << " are accepted";
  if (Error error = verifyDevices(cluster, group))
    return error;
  if (Error error = verifyLink(group.link, group.location, "the link of node '" + group.name + "'"))
    return error;
  return verifyZone(cluster, group);
}

/// Numbered names ("gpu-0") must not meet a plain one.
Error verifyNodeNames(const Cluster &cluster) {
  StringMap<const NodeGroup *> groups;
  for (const NodeGroup &group : cluster.nodes)
    if (!groups.try_emplace(group.name, &group).second)
      return Diagnostic(Diag::DuplicateName, group.location)
                 .note(groups[group.name]->location, "the first one is here")
             << "two nodes are called '" << group.name << "'";
  for (const NodeGroup &group : cluster.nodes) {
    auto [stem, number] = StringRef(group.name).rsplit('-');
    auto other = groups.find(stem);
    unsigned index = 0;
    if (group.count == 1 && other != groups.end() && !number.getAsInteger(10, index) &&
        other->second->count > 1 && index < unsigned(other->second->count) &&
        nodeName(*other->second, int(index)) == group.name)
      return Diagnostic(Diag::DuplicateName, group.location)
                 .note(other->second->location, "this group numbers its nodes")
             << "node '" << group.name << "' has the name of a node of the group '" << stem << "'";
  }
  return Error::success();
}

template <typename Item> Error verifyUnique(const std::vector<Item> &items, const char *what) {
  StringSet<> names;
  for (const Item &item : items)
    if (!names.insert(item.name).second)
      return Diagnostic(Diag::DuplicateName, item.location)
             << "two " << what << " are called '" << item.name << "'";
  return Error::success();
}

Error verifyZones(const Cluster &cluster, bool needNetwork) {
  for (const Zone &zone : cluster.zones) {
    if (zone.name.empty())
      return Diagnostic(Diag::MissingField, zone.location) << "a zone has no name";
    if (needNetwork)
      if (Error error =
              verifyLink(zone.network, zone.location, "the network of zone '" + zone.name + "'"))
        return error;
  }
  return verifyUnique(cluster.zones, "zones");
}

Error verifyPlaceLinks(const Cluster &cluster) {
  std::vector<std::string> places = namesOf(cluster.zones);
  append_range(places, namesOf(cluster.nodes));
  for (const DeviceType &type : cluster.types)
    places.push_back(type.stated());
  for (const PlaceLink &link : cluster.links) {
    for (const std::string &place : {link.from, link.to})
      if (!is_contained(places, place))
        return Diagnostic(Diag::UnknownZone, link.location)
               << "no zone, node or device type is called '" << place << "'"
               << didYouMean(place, places);
    if (Error error = verifyLink(link.network, link.location,
                                 "the link between '" + link.from + "' and '" + link.to + "'"))
      return error;
  }
  return Error::success();
}

Error verifySize(const Cluster &cluster) {
  double devices = 0;
  for (const NodeGroup &group : cluster.nodes)
    for (const auto &[type, count] : group.devices)
      devices += double(count) * group.count;
  if (devices > mostDevices)
    return Diagnostic(Diag::OutOfRange, cluster.nodes.front().location)
           << "the cluster has " << devices << " devices; at most " << mostDevices
           << " are accepted";
  return Error::success();
}

Error verifyNetworks(const Cluster &cluster) {
  bool hasSeveralNodes = cluster.nodes.size() > 1 || cluster.nodes.front().count > 1;
  bool hasNetwork = !cluster.network.name.empty() || cluster.network.bandwidth != BytesPerSecond();
  if (hasSeveralNodes && !hasNetwork)
    return Diagnostic(Diag::MissingField, Location{})
               .note({}, "add e.g. network: {bandwidth: 100Gbit/s, latency: 5us}")
           << "'network' is missing: the cluster has several nodes, and their connection needs a "
              "bandwidth and a latency";
  if (hasSeveralNodes)
    if (Error error = verifyLink(cluster.network, {}, "the network between the nodes"))
      return error;
  return verifyZones(cluster, hasSeveralNodes);
}
} // namespace

std::string nodeName(const NodeGroup &group, int index) {
  return group.count == 1 ? group.name : group.name + "-" + std::to_string(index);
}

Cluster withoutNodes(Cluster cluster, StringRef group, int lost) {
  std::vector<NodeGroup> left;
  for (NodeGroup &node : cluster.nodes) {
    if (node.name != group) {
      left.push_back(std::move(node));
      continue;
    }
    for (int index = 0; index < node.count - lost; ++index) {
      NodeGroup &single = left.emplace_back(node);
      single.name = nodeName(node, index);
      single.count = 1;
    }
  }
  cluster.nodes = std::move(left);
  return cluster;
}

std::vector<int> NodeGroup::indicesOf(const std::string &type) const {
  if (auto known = indices.find(type); known != indices.end())
    return known->second;
  auto held = devices.find(type);
  std::vector<int> all(held == devices.end() ? 0 : held->second);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> Cluster::typesCalled(StringRef typeName) const {
  std::vector<int> found;
  for (int type = 0; type < int(types.size()); ++type)
    if (types[type].name == typeName || types[type].stated() == typeName)
      found.push_back(type);
  return found;
}

int Cluster::typeIndex(StringRef typeName) const {
  std::vector<int> found = typesCalled(typeName);
  return found.empty() ? -1 : found.front();
}

int Cluster::typeIndex(const DeviceRef &device) const {
  std::vector<int> found = typesCalled(device.type);
  if (found.size() < 2)
    return found.empty() ? -1 : found.front();
  for (const NodeGroup &group : nodes)
    for (int type : found)
      if (is_contained(group.indicesOf(types[type].name), device.index) &&
          isNodeOf(group, device.node))
        return type;
  return -1;
}

double defaultHeadroom(const Cluster &cluster) {
  bool stated = any_of(cluster.types, [](const DeviceType &type) { return bool(type.overhead); });
  return stated ? 0.05 : 0;
}

int Cluster::deviceCount(int type) const {
  int64_t count = 0;
  for (const NodeGroup &group : nodes)
    if (auto entry = group.devices.find(types[type].name); entry != group.devices.end())
      count += int64_t(entry->second) * group.count;
  return static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
}

int Cluster::totalDevices() const {
  int64_t count = 0;
  for (int type = 0; type < int(types.size()); ++type)
    count += deviceCount(type);
  return static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
}

Error Cluster::verify() const {
  if (types.empty() || nodes.empty())
    return Diagnostic(Diag::MissingField, {})
           << "cluster '" << name << "' has no " << (types.empty() ? "device types" : "nodes");
  for (const DeviceType &type : types)
    if (Error error = verifyType(type))
      return error;
  if (Error error = verifyUnique(types, "device types"))
    return error;
  for (const NodeGroup &group : nodes)
    if (Error error = verifyNode(*this, group))
      return error;
  if (Error error = verifyNodeNames(*this))
    return error;
  if (Error error = verifySize(*this))
    return error;
  if (Error error = verifyNetworks(*this))
    return error;
  return verifyPlaceLinks(*this);
}

std::vector<DeviceRef> devicesOf(const Cluster &cluster, int type) {
  std::vector<DeviceRef> devices;
  const std::string &name = cluster.types[type].name;
  for (const NodeGroup &group : cluster.nodes) {
    std::vector<int> indices = group.indicesOf(name);
    for (int node = 0; node < group.count && !indices.empty(); ++node)
      for (int index : indices)
        devices.push_back({cluster.types[type].stated(), nodeName(group, node), index});
  }
  return devices;
}

std::vector<Link *> linksOf(Cluster &cluster) {
  std::vector<Link *> links = {&cluster.network};
  for (NodeGroup &group : cluster.nodes)
    links.push_back(&group.link);
  for (Zone &zone : cluster.zones)
    links.push_back(&zone.network);
  for (PlaceLink &link : cluster.links)
    links.push_back(&link.network);
  return links;
}

bool isAt(const Cluster &cluster, const NodeGroup &group, StringRef type, StringRef place) {
  auto isCalledSo = [&](const auto &item) { return item.name == place; };
  if (any_of(cluster.zones, isCalledSo))
    return group.zone == place || (group.zone.empty() && cluster.zones.size() == 1);
  if (any_of(cluster.nodes, isCalledSo))
    return group.name == place;
  return type == place;
}

const Link &networkBetween(const Cluster &cluster, const NodeGroup &a, StringRef aType,
                           const NodeGroup &b, StringRef bType) {
  for (const PlaceLink &link : cluster.links) {
    auto joins = [&](StringRef from, StringRef to) {
      return isAt(cluster, a, aType, from) && isAt(cluster, b, bType, to);
    };
    if (joins(link.from, link.to) || joins(link.to, link.from))
      return link.network;
  }
  for (const Zone &zone : cluster.zones)
    if (a.zone == b.zone && zone.name == a.zone)
      return zone.network;
  return cluster.network;
}

} // namespace heterplan
