// The target: device types, nodes that hold devices, the links in a node and the network between
// nodes, zones. Read from YAML; `lib/cost/Catalogue` fills in peak rates of catalogued hardware.
#pragma once

#include "ir/DeviceClass.h"
#include "support/Diagnostic.h"
#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

struct YamlNode;

/// The origin of a figure. Ordered from best to worst: a sum is as good as its worst part.
enum class Provenance { Measured, Interpolated, Regressed, Modelled, Assumed };
constexpr int provenances = 5; // how many there are
const char *nameOf(Provenance provenance);

/// Rates that the best kernels of a device sustain for seconds, under its limits on power and
/// clocks.
struct SustainedRates {
  FlopsPerSecond fp32{}, tf32{}; // 0: not stated
  FlopsPerSecond half{};         // 16 bits, sums in fp32
  BytesPerSecond memory{};
  bool operator==(const SustainedRates &) const = default;
};

/// Peak rates of a device as its maker states them, dense.
struct PeakRates {
  FlopsPerSecond fp32{};
  FlopsPerSecond tf32{}; // 0 where the device has none
  FlopsPerSecond bf16{}; // 0 where the device has no units for it
  BytesPerSecond memory{};
  std::string source;    // where the figures were read
  FlopsPerSecond fp16{}; // where it is not that of bf16; 0 where the device has no units for it
  SustainedRates sustained{};
  bool operator==(const PeakRates &) const = default;

  /// The rate of products of 16 bits with sums in fp32.
  FlopsPerSecond half() const { return std::max(bf16, fp16); }
};

/// The memory of a rank on its device: `constant` for the process (interpreter, libraries, buffers
/// of the communication, context of a GPU), `factor` times the long-lived tensors (messages,
/// rounding), `underWay` times the workspace of its layers, whose blocks come and go and leave
/// holes in the allocator's heap, and `convolutions` times Layer::convolutionBytes of its largest
/// convolution, for kernels that transform copies of their operands.
struct MemoryOverhead {
  Bytes constant{};
  double factor = 1, underWay = 1;
  std::string source{}; // who says so; empty: nobody does
  Provenance provenance = Provenance::Assumed;
  double convolutions = 0;
  bool operator==(const MemoryOverhead &) const = default;

  explicit operator bool() const { return !source.empty(); }
  /// How often a rank counts the workspace of its layers among its tensors.
  double workspaceCopies() const { return std::max(1.0, underWay / factor); }
  /// How often a rank counts the operands of a convolution among its tensors.
  double convolutionCopies() const { return convolutions / factor; }
  /// Memory of a rank with `tensors`.
  Bytes resident(Bytes tensors) const { return constant + tensors * factor; }
  /// The tensors that a rank has room for in `memory`; 0 where not even the process fits.
  Bytes room(Bytes memory) const;
};

struct DeviceType {
  std::string name;
  DeviceClass deviceClass = DeviceClass::Gpu;
  Bytes memory{};
  DollarsPerHour price{};
  std::string catalogue;          // entry of profiles/devices, or empty
  std::optional<PeakRates> rates; // from the file itself or from the catalogue
  Location location;
  /// Whether the file says so itself; what it leaves out, the catalogue fills in.
  bool statesKind = true;
  bool statesPrice = true;
  Location catalogueLocation{};
  double cores = 0; // of one CPU device; 0: not known
  /// The name in files and profiles if `name` is the name of some of its nodes; see NodeClasses.h.
  std::string statedName{};
  const std::string &stated() const { return statedName.empty() ? name : statedName; }
  /// How fast it computes, as a multiple of what profiles and the catalogue say of it.
  double speed = 1;
  MemoryOverhead overhead{};
  std::string vendor{};       // "nvidia", "amd", ...; empty: not known
  std::string architecture{}; // one of cost/Architectures.def; empty: not known
  /// Whether such devices reach each other's memory over PCI Express; none: nobody says so.
  std::optional<bool> peerAccess{};
  /// Devices of the type `ofType` that each one stands for, which share every layer
  /// (cost/ShardGroups.h).
  int shards = 1;
  int ofType = -1; // index of the type of these devices; -1: it stands for itself
};

/// Moving s bytes takes latency + s/bandwidth.
struct LinkSpeed {
  BytesPerSecond bandwidth{};
  Seconds latency{};
  bool operator==(const LinkSpeed &) const = default;
};

/// Rows of sparse tables that a rank reads from the others: latency of a message, and bandwidth,
/// with all that is done to them on the way; in either pass each row that is read takes `row`.
struct LookupSpeed {
  LinkSpeed messages;
  Seconds row{};
  bool operator==(const LookupSpeed &) const = default;
};

/// Bandwidth in one direction between two devices (or nodes), and latency of one message.
struct Link {
  std::string name;
  BytesPerSecond bandwidth{};
  Seconds latency{};
  std::string source;
  Location location{};
  /// The speed of each step of an all-reduce over the link, which also adds; if unknown, the speed
  /// of messages.
  std::optional<LinkSpeed> allReduce{};
  std::optional<LinkSpeed> reduceScatter{}, allGather{}; // of each of their steps; as allReduce
  Provenance provenance = Provenance::Modelled;
  /// As messages where not known.
  std::optional<LookupSpeed> lookup{};
  /// Bandwidth between two devices alone, where groups of more devices have more (a mesh of links);
  /// 0: the same.
  BytesPerSecond pairBandwidth{};
  /// Bandwidth between devices that do not reach each other's memory, through that of the host; 0:
  /// the same.
  BytesPerSecond throughHost{};
  /// How much computing a device loses to an all-reduce over the link that travels meanwhile, as a
  /// share of the time that the all-reduce takes by itself: 0 none, 1 as much as if it waited.
  double overlapLoss = 0;
};

/// The host of each node of a group, as far as the file states it.
struct Host {
  std::optional<double> cores;
  std::optional<Bytes> memory;
  bool operator==(const Host &) const = default;
};

struct NodeGroup {
  std::string name;
  int count = 1;                      // nodes of this kind
  std::map<std::string, int> devices; // type -> how many in each node
  std::string linkName;               // entry of profiles/links, or empty when inline
  Link link;                          // between devices of one node; resolved
  std::string zone;                   // empty: the only zone
  Location location;
  Host host{};
  /// By type: the speed of each of its devices in a node, as a multiple of the type's; absent: 1.
  std::map<std::string, std::vector<double>> speeds{};
  /// By type: which devices of DeviceType::stated these are, ascending; absent: the first ones.
  std::map<std::string, std::vector<int>> indices{};

  /// The devices of `type` in each node: numbers among those of DeviceType::stated.
  std::vector<int> indicesOf(const std::string &type) const;
};

struct Zone {
  std::string name;
  Link network;         // between nodes of the zone
  Dollars pricePerGb{}; // of 10^9 bytes that leave the zone
  Location location;
};

/// The network between two places, both ways, where it is neither a zone's nor the cluster's.
struct PlaceLink {
  /// Each a zone, else a group of nodes, else a device type; twice the same: within it.
  std::string from, to;
  Link network;
  Location location;
};

struct DeviceRef;

struct Cluster {
  std::string name;
  std::string fingerprint; // of the file, hex SHA-256
  std::vector<DeviceType> types;
  std::vector<NodeGroup> nodes;
  Link network; // between nodes, and between zones
  std::vector<Zone> zones;
  std::vector<PlaceLink> links; // of two that fit, the first one counts
  /// Devices that each device stands for, which share every layer (cost/ShardGroups.h).
  int shardDegree = 1;

  /// Index of the device type called `name`, or -1; of the first where several node classes are.
  int typeIndex(llvm::StringRef name) const;
  /// The index of the type of `device`, or of its node class if there are several; -1 if the
  /// cluster has no such type or node.
  int typeIndex(const DeviceRef &device) const;
  /// The type whose devices those of `type` stand for; mostly itself.
  int deviceTypeOf(int type) const { return types[type].ofType < 0 ? type : types[type].ofType; }
  /// Whether some types stand for several devices of others.
  bool hasShardTypes() const {
    return std::any_of(types.begin(), types.end(),
                       [](const DeviceType &type) { return type.ofType >= 0; });
  }
  /// All types that files call `name`, or that are called so.
  std::vector<int> typesCalled(llvm::StringRef name) const;
  /// Devices of type `type` in the whole cluster.
  int deviceCount(int type) const;
  int totalDevices() const;
  /// Counts positive and bounded, names unique, references resolve, rates positive.
  llvm::Error verify() const;
};

/// One physical device: the `index`-th of its type in node `node` ("gpu-0" ... "gpu-3" for a group
/// "gpu" of four; a group of one node is called by its plain name).
struct DeviceRef {
  std::string type;
  std::string node;
  int index = 0;
  bool operator==(const DeviceRef &) const = default;
  auto operator<=>(const DeviceRef &) const = default;
};

/// All devices of `type`, node by node in file order: the order in which plans take them.
std::vector<DeviceRef> devicesOf(const Cluster &cluster, int type);
/// Name of node `index` of `group`: "gpu-0", or "gpu" in a group of one.
std::string nodeName(const NodeGroup &group, int index);
/// `cluster` without the last `lost` nodes of the group called `group`. The others keep their
/// names.
Cluster withoutNodes(Cluster cluster, llvm::StringRef group, int lost);

/// Every link of the cluster: the network, those of the nodes, of the zones and between places.
std::vector<Link *> linksOf(Cluster &cluster);

/// Whether `place`, an end of a PlaceLink, is where the devices `type` of `group` are; `type` is
/// DeviceType::stated.
bool isAt(const Cluster &cluster, const NodeGroup &group, llvm::StringRef type,
          llvm::StringRef place);
/// The link between nodes of `a` and of `b` for the devices `aType` and `bType` that they have: the
/// first of Cluster::links that fits, else the network of the zone that both are in, else the
/// cluster's.
const Link &networkBetween(const Cluster &cluster, const NodeGroup &a, llvm::StringRef aType,
                           const NodeGroup &b, llvm::StringRef bType);
/// The part of each memory that plans keep free unless they are told: 0.05 where it is stated what
/// ranks take beyond their tensors. Nothing elsewhere: there figures are of tensors alone.
double defaultHeadroom(const Cluster &cluster);

/// Reads `sustained: {fp32: ..., tf32: ..., half: ..., bandwidth: ...}`, each of which may be
/// absent.
llvm::Error readSustained(const YamlNode &node, const std::string &what, SustainedRates &rates);

/// Reads a cluster file (docs/clusters.md). Errors carry line and column.
llvm::Expected<Cluster> readCluster(llvm::StringRef path);
/// Parses a cluster from text; `path` is for messages.
llvm::Expected<Cluster> parseCluster(llvm::StringRef text, llvm::StringRef path);

} // namespace heterplan
