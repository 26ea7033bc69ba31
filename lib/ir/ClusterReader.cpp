// Cluster files: YAML to Cluster. docs/clusters.md describes the format.
#include "ir/Cluster.h"
#include "ir/MemoryOverhead.h"
#include "support/Files.h"
#include "support/Suggestion.h"
#include "support/Yaml.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

Error readSustained(const YamlNode &node, const std::string &what, SustainedRates &rates) {
  auto rate = [&](const char *key, FlopsPerSecond &result) -> YamlField {
    return {key, Presence::Optional, [=, &result](const YamlNode &value) {
              return readFlopRate(value, std::string(key) + " of the " + what, result);
            }};
  };
  return readMapping(node, what,
                     {rate("fp32", rates.fp32),
                      rate("tf32", rates.tf32),
                      rate("half", rates.half),
                      {"bandwidth", Presence::Optional, [&](const YamlNode &value) {
                         return readBandwidth(value, "bandwidth of the " + what, rates.memory);
                       }}});
}

namespace {
constexpr int mostOfOneKind = 1'000'000;
constexpr double highestSpeed = 1e3; // times what is stated or measured of a type
constexpr double highestPrice = 1e6; // dollars an hour, or a gigabyte
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;

std::string quoted(StringRef what, StringRef name) { return (what + " '" + name + "'").str(); }

Error readKind(const YamlNode &node, const std::string &what, DeviceClass &kind) {
  std::string text;
  if (Error error = readText(node, what, text))
    return error;
  std::optional<DeviceClass> found = deviceClassOf(text);
  if (!found)
    return Diagnostic(Diag::WrongType, node.location)
           << what << " is '" << text << "'; accepted are " << deviceClassNames();
  kind = *found;
  return Error::success();
}

Error readSpeed(const YamlNode &node, const std::string &what, double &speed) {
  if (Error error = readNumber(node, what, highestSpeed, speed))
    return error;
  if (speed > 1 / highestSpeed)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << what << " is " << speed << "; more than " << 1 / highestSpeed << " is accepted";
}

YamlField rateField(const char *key, const std::string &owner, std::optional<PeakRates> &rates,
                    FlopsPerSecond PeakRates::*member) {
  return {key, optional, [=, &rates](const YamlNode &node) {
            if (!rates)
              rates.emplace();
            return readFlopRate(node, std::string(key) + " of " + owner, (*rates).*member);
          }};
}

/// Without a catalogue entry the file must say everything itself.
Error checkComplete(const DeviceType &type, const YamlNode &node) {
  if (!type.catalogue.empty())
    return Error::success();
  if (!type.statesKind || type.memory == Bytes())
    return Diagnostic(Diag::MissingField, node.location)
               .note({}, "or name an entry of profiles/devices: 'catalogue: ...'")
           << "device type '" << type.name << "' lacks '" << (type.statesKind ? "memory" : "kind")
           << "'";
  if (type.rates &&
      (type.rates->fp32 == FlopsPerSecond() || type.rates->memory == BytesPerSecond()))
    return Diagnostic(Diag::MissingField, node.location)
           << "device type '" << type.name << "' states rates; then it needs both 'fp32' and "
           << "'bandwidth'";
  return Error::success();
}

Error readDeviceType(const YamlEntry &entry, DeviceType &type) {
  type.name = entry.key;
  type.location = entry.location;
  type.statesKind = type.statesPrice = false;
  std::string owner = quoted("device type", type.name);
  double price = 0;
  Error error = readMapping(
      entry.value, owner,
      {{"kind", optional,
        [&](const YamlNode &node) {
          type.statesKind = true;
          return readKind(node, "kind of " + owner, type.deviceClass);
        }},
       {"memory", optional,
        [&](const YamlNode &node) { return readBytes(node, "memory of " + owner, type.memory); }},
       {"price_per_hour", optional,
        [&](const YamlNode &node) {
          type.statesPrice = true;
          return readNumber(node, "price_per_hour of " + owner, highestPrice, price);
        }},
       {"catalogue", optional,
        [&](const YamlNode &node) {
          type.catalogueLocation = node.location;
          return readText(node, "catalogue of " + owner, type.catalogue);
        }},
       {"cores", optional,
        [&](const YamlNode &node) { return readCores(node, "cores of " + owner, type.cores); }},
       {"speed", optional,
        [&](const YamlNode &node) { return readSpeed(node, "speed of " + owner, type.speed); }},
       memoryOverheadField(owner, "cluster file", type.overhead),
       rateField("fp32", owner, type.rates, &PeakRates::fp32),
       rateField("tf32", owner, type.rates, &PeakRates::tf32),
       rateField("bf16", owner, type.rates, &PeakRates::bf16),
       rateField("fp16", owner, type.rates, &PeakRates::fp16),
       {"vendor", optional,
        [&](const YamlNode &node) { return readText(node, "vendor of " + owner, type.vendor); }},
       {"architecture", optional,
        [&](const YamlNode &node) {
          return readText(node, "architecture of " + owner, type.architecture);
        }},
       {"peer_access", optional,
        [&](const YamlNode &node) {
          return readFlag(node, "peer_access of " + owner, type.peerAccess.emplace());
        }},
       {"sustained", optional,
        [&](const YamlNode &node) {
          if (!type.rates)
            type.rates.emplace();
          return readSustained(node, "sustained rates of " + owner, type.rates->sustained);
        }},
       {"bandwidth", optional, [&](const YamlNode &node) {
          if (!type.rates)
            type.rates.emplace();
          return readBandwidth(node, "bandwidth of " + owner, type.rates->memory);
        }}});
  if (error)
    return error;
  type.price = DollarsPerHour(price);
  if (type.rates)
    type.rates->source = "cluster file";
  return checkComplete(type, entry.value);
}

Error readDeviceTypes(const YamlNode &node, std::vector<DeviceType> &types) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location)
           << "device_types must be a mapping from names to their facts";
  for (const YamlEntry &entry : node.entries)
    if (Error error = readDeviceType(entry, types.emplace_back()))
      return error;
  return Error::success();
}

/// The name of an entry of profiles/links, or {bandwidth, latency, overlap_loss}.
Error readLink(const YamlNode &node, const std::string &what, Link &link) {
  link.location = node.location;
  if (node.kind == YamlNode::Kind::Scalar)
    return readText(node, what, link.name);
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location)
           << what << " must be the name of a link or {bandwidth: 100Gbit/s, latency: 5us}";
  link.source = "cluster file";
  return readMapping(node, what,
                     {{"bandwidth", required,
                       [&](const YamlNode &value) {
                         return readBandwidth(value, "bandwidth of " + what, link.bandwidth);
                       }},
                      {"latency", required,
                       [&](const YamlNode &value) {
                         return readLatency(value, "latency of " + what, link.latency);
                       }},
                      {"overlap_loss", optional, [&](const YamlNode &value) {
                         return readNumber(value, "overlap_loss of " + what, 1, link.overlapLoss);
                       }}});
}

Error readDevices(const YamlNode &node, const std::string &owner, NodeGroup &group,
                  std::vector<std::pair<std::string, Location>> &uses) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location)
           << "devices of " << owner << " must be a mapping from device types to how many";
  for (const YamlEntry &entry : node.entries) {
    uses.emplace_back(entry.key, entry.location);
    if (Error error = readInteger(entry.value, "number of " + quoted("devices", entry.key), 1,
                                  mostOfOneKind, group.devices[entry.key]))
      return error;
  }
  return Error::success();
}

Error readHost(const YamlNode &node, const std::string &owner, Host &host) {
  return readMapping(
      node, "host of " + owner,
      {{"cpu", optional,
        [&](const YamlNode &value) {
          return readCores(value, "cpu of the host of " + owner, host.cores.emplace());
        }},
       {"memory", optional, [&](const YamlNode &value) {
          return readBytes(value, "memory of the host of " + owner, host.memory.emplace());
        }}});
}

/// One number for all devices of a type, or a list of one for each.
Error readSpeedsOf(const YamlEntry &entry, const std::string &owner, NodeGroup &group) {
  auto held = group.devices.find(entry.key);
  if (held == group.devices.end())
    return Diagnostic(Diag::UnknownDevice, entry.location)
           << owner << " states speeds of '" << entry.key << "', of which it has no devices";
  std::string what = "speed of " + quoted("devices", entry.key);
  std::vector<double> &speeds = group.speeds[entry.key];
  speeds.assign(held->second, 1);
  if (entry.value.kind != YamlNode::Kind::Sequence) {
    if (Error error = readSpeed(entry.value, what, speeds.front()))
      return error;
    speeds.assign(held->second, speeds.front());
    return Error::success();
  }
  if (entry.value.items.size() != speeds.size())
    return Diagnostic(Diag::OutOfRange, entry.value.location)
           << owner << " states " << entry.value.items.size() << " speeds of " << speeds.size()
           << " devices '" << entry.key << "'";
  for (size_t i = 0; i < speeds.size(); ++i)
    if (Error error = readSpeed(entry.value.items[i], what, speeds[i]))
      return error;
  return Error::success();
}

/// After the devices: one number for all of them, or a mapping by type.
Error readSpeeds(const YamlNode &node, const std::string &owner, NodeGroup &group) {
  if (node.kind == YamlNode::Kind::Mapping) {
    for (const YamlEntry &entry : node.entries)
      if (Error error = readSpeedsOf(entry, owner, group))
        return error;
    return Error::success();
  }
  double speed = 1;
  if (Error error = readSpeed(node, "speed of " + owner, speed))
    return error;
  for (const auto &[type, count] : group.devices)
    group.speeds[type].assign(count, speed);
  return Error::success();
}

/// Places at which names are used, for messages about undeclared names.
struct Uses {
  std::vector<std::pair<std::string, Location>> types, zones;
};

Error readNode(const YamlNode &node, NodeGroup &group, Uses &uses) {
  group.location = node.location;
  if (node.kind == YamlNode::Kind::Mapping) // the name first: messages use it
    for (const YamlEntry &entry : node.entries)
      if (entry.key == "name")
        if (Error error = readText(entry.value, "name of a node", group.name))
          return error;
  std::string owner = quoted("node", group.name);
  group.link.name = "pcie3";
  Error error = readMapping(
      node, owner,
      {{"name", required, [](const YamlNode &) { return Error::success(); }},
       {"count", optional,
        [&](const YamlNode &value) {
          return readInteger(value, "count of " + owner, 1, mostOfOneKind, group.count);
        }},
       {"devices", required,
        [&](const YamlNode &value) { return readDevices(value, owner, group, uses.types); }},
       {"speed", optional, [](const YamlNode &) { return Error::success(); }}, // needs the devices
       {"link", optional,
        [&](const YamlNode &value) {
          group.link = Link();
          return readLink(value, "the link of " + owner, group.link);
        }},
       {"host", optional,
        [&](const YamlNode &value) { return readHost(value, owner, group.host); }},
       {"zone", optional, [&](const YamlNode &value) {
          uses.zones.emplace_back(value.text, value.location);
          return readText(value, "zone of " + owner, group.zone);
        }}});
  group.linkName = group.link.name;
  if (error)
    return error;
  for (const YamlEntry &entry : node.entries)
    if (entry.key == "speed")
      return readSpeeds(entry.value, owner, group);
  return Error::success();
}

Error readZone(const YamlNode &node, Zone &zone) {
  zone.location = node.location;
  return readMapping(
      node, "a zone",
      {{"name", required,
        [&](const YamlNode &value) { return readText(value, "name of a zone", zone.name); }},
       {"network", optional,
        [&](const YamlNode &value) {
          return readLink(value, "the network of a zone", zone.network);
        }},
       {"price_per_gb", optional, [&](const YamlNode &value) {
          double price = 0;
          Error error = readNumber(value, "price_per_gb of a zone", highestPrice, price);
          zone.pricePerGb = Dollars(price);
          return error;
        }}});
}

Error readBetween(const YamlNode &node, PlaceLink &link) {
  if (node.kind != YamlNode::Kind::Sequence || node.items.size() != 2)
    return Diagnostic(Diag::WrongType, node.location)
           << "between must be a list of two names of zones, nodes or device types: [east, west]";
  link.location = node.location;
  if (Error error = readText(node.items[0], "the first end of a link", link.from))
    return error;
  return readText(node.items[1], "the second end of a link", link.to);
}

Error readPlaceLink(const YamlNode &node, PlaceLink &link) {
  return readMapping(
      node, "a link",
      {{"between", required, [&](const YamlNode &value) { return readBetween(value, link); }},
       {"network", required, [&](const YamlNode &value) {
          return readLink(value, "the network of a link", link.network);
        }}});
}

template <typename Item, typename Read>
Error readList(const YamlNode &node, const char *what, std::vector<Item> &items, Read read) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a list (- {...})";
  for (const YamlNode &item : node.items)
    if (Error error = read(item, items.emplace_back()))
      return error;
  return Error::success();
}

/// Like Cluster::verify, but points at the word and lists what is declared.
Error checkUses(const Cluster &cluster, const Uses &uses) {
  for (const auto &[name, place] : uses.types)
    if (cluster.typeIndex(name) < 0) {
      std::vector<std::string> declared = namesOf(cluster.types);
      return Diagnostic(Diag::UnknownDevice, place).note({}, "declared are " + join(declared, ", "))
             << "device_types does not declare '" << name << "'" << didYouMean(name, declared);
    }
  for (const auto &[name, place] : uses.zones)
    if (std::vector<std::string> declared = namesOf(cluster.zones); !is_contained(declared, name))
      return Diagnostic(Diag::UnknownZone, place)
             << "zones does not declare '" << name << "'" << didYouMean(name, declared);
  return Error::success();
}

Error readRoot(const YamlNode &root, Cluster &cluster, Uses &uses) {
  return readMapping(
      root, "the cluster",
      {{"name", optional,
        [&](const YamlNode &node) { return readText(node, "name of the cluster", cluster.name); }},
       {"device_types", required,
        [&](const YamlNode &node) { return readDeviceTypes(node, cluster.types); }},
       {"nodes", required,
        [&](const YamlNode &node) {
          return readList(
              node, "nodes", cluster.nodes,
              [&](const YamlNode &item, NodeGroup &group) { return readNode(item, group, uses); });
        }},
       {"network", optional,
        [&](const YamlNode &node) { return readLink(node, "the network", cluster.network); }},
       {"zones", optional,
        [&](const YamlNode &node) { return readList(node, "zones", cluster.zones, readZone); }},
       {"links", optional, [&](const YamlNode &node) {
          return readList(node, "links", cluster.links, readPlaceLink);
        }}});
}

/// Says where the root is, for complaints about what is absent from it.
Error located(Error error, const Location &place) {
  return handleErrors(std::move(error), [&](std::unique_ptr<DiagnosticError> diagnostic) -> Error {
    if (diagnostic->location.file.empty())
      diagnostic->location = place;
    return Error(std::move(diagnostic));
  });
}
} // namespace

Expected<Cluster> parseCluster(StringRef text, StringRef path) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  Cluster cluster;
  cluster.name = sys::path::stem(path).str(); // unless the file says otherwise
  Uses uses;
  if (Error error = readRoot(*root, cluster, uses))
    return error;
  if (Error error = checkUses(cluster, uses))
    return error;
  for (Zone &zone : cluster.zones)
    if (zone.network.name.empty() && zone.network.bandwidth == BytesPerSecond())
      zone.network = cluster.network;
  if (Error error = located(cluster.verify(), root->location))
    return error;
  cluster.fingerprint = sha256(text);
  return cluster;
}

Expected<Cluster> readCluster(StringRef path) {
  Expected<std::string> text = readFile(path, largestYaml);
  if (!text)
    return text.takeError();
  return parseCluster(*text, path);
}

} // namespace heterplan
