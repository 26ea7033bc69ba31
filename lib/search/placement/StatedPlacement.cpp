#include "search/placement/StatedPlacement.h"

#include "cost/TrafficPrice.h"
#include "ir/MicroBatches.h"
#include "support/Suggestion.h"
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr auto required = Presence::Required, optional = Presence::Optional;
constexpr int mostDevices = 1 << 20;

/// A stage as it is stated.
struct StatedStage {
  Location location;
  int begin = 0, end = 0;                   // layers
  std::vector<std::pair<int, int>> devices; // type and count, in the order of the file
  std::map<int, Spread> spread;             // by type, where it is stated
  std::vector<int64_t> shares;              // by device; empty: not stated
  std::optional<ExecutionMode> mode;        // none: not stated
};

/// The types that `key` names: a device type or node class, or "TYPE in ZONE", the devices of a
/// type that lie in a zone.
std::vector<int> typesNamed(const Cluster &cluster, StringRef key) {
  std::vector<int> types = cluster.typesCalled(key);
  auto [name, zone] = key.rsplit(" in ");
  if (!types.empty() || zone.empty())
    return types;
  types = cluster.typesCalled(name);
  erase_if(types, [&, zone = zone](int type) {
    return none_of(cluster.nodes, [&](const NodeGroup &group) {
      return group.zone == zone && group.devices.count(cluster.types[type].name);
    });
  });
  return types;
}

class PlacementReader {
public:
  explicit PlacementReader(const Problem &problem) : problem(problem) {
    for (size_t type = 0; type < problem.cluster.types.size(); ++type)
      left.push_back(problem.cluster.deviceCount(static_cast<int>(type)));
  }

  Error read(const YamlNode &node);
  Expected<Placement> placement() const;

private:
  Error readStages(const YamlNode &node);
  Error readLayers(const YamlNode &node, StatedStage &stage);
  Error readDevices(const YamlNode &node, StatedStage &stage);
  Error readCount(const YamlEntry &entry, std::vector<int> &inNodes) const;
  Error takeNodes(const YamlEntry &entry, ArrayRef<int> types, ArrayRef<int> inNodes,
                  StatedStage &stage);
  void takeDevices(std::vector<int> types, int count, StatedStage &stage);
  Error readShares(const YamlNode &node, StatedStage &stage);
  /// The mode of a stage of which a part is stated; the rest is as simple as it may be.
  static ExecutionMode &stated(StatedStage &stage) {
    return stage.mode ? *stage.mode : stage.mode.emplace();
  }
  static Error readRecompute(const YamlNode &node, StatedStage &stage);
  static Error readSharding(const YamlNode &node, StatedStage &stage);
  DeviceGroup groupOf(const StatedStage &stated) const;
  Error addShares(const StatedStage &stated, PlacedStage &placed) const;

  const Problem &problem;
  Location location;
  int microBatches = 1;
  std::vector<StatedStage> stages;
  std::vector<int> left; // devices of each type that no stage has yet
};

Error PlacementReader::read(const YamlNode &node) {
  location = node.location;
  int most = static_cast<int>(problem.request.globalBatch.value());
  return readMapping(
      node, "a placement",
      {{"microBatches", optional,
        [&](const YamlNode &value) {
          return readInteger(value, "microBatches", 1, most, microBatches);
        }},
       {"stages", required, [&](const YamlNode &value) { return readStages(value); }}});
}

Error PlacementReader::readStages(const YamlNode &node) {
  if (node.kind != YamlNode::Kind::Sequence || node.items.empty())
    return Diagnostic(Diag::WrongType, node.location)
           << "stages must be a list (- {layers: [first, last], devices: {v100: 4}})";
  for (const YamlNode &item : node.items) {
    StatedStage &stage = stages.emplace_back();
    stage.location = item.location;
    Error error = readMapping(
        item, "stage " + std::to_string(stages.size() - 1),
        {{"layers", required, [&](const YamlNode &value) { return readLayers(value, stage); }},
         {"devices", required, [&](const YamlNode &value) { return readDevices(value, stage); }},
         {"shares", optional, [&](const YamlNode &value) { return readShares(value, stage); }},
         {"recompute", optional,
          [&](const YamlNode &value) { return readRecompute(value, stage); }},
         {"shardState", optional,
          [&](const YamlNode &value) { return readSharding(value, stage); }}});
    if (error)
      return error;
  }
  return Error::success();
}

/// One layer, the first and the last one, or all of them in order.
Error PlacementReader::readLayers(const YamlNode &node, StatedStage &stage) {
  if (node.kind != YamlNode::Kind::Sequence || node.items.empty())
    return Diagnostic(Diag::WrongType, node.location)
           << "layers must be a list of names: [first, last], or all of them";
  std::vector<int> layers;
  for (const YamlNode &item : node.items) {
    std::string name;
    if (Error error = readText(item, "a layer", name))
      return error;
    layers.push_back(problem.graph.find(name));
    if (layers.back() < 0)
      return Diagnostic(Diag::UnknownLayer, item.location)
                 .note({}, "'heterplan import' lists the layers of a model")
             << "the model has no layer '" << name << "'"
             << didYouMean(name, namesOf(problem.graph.layers));
    if (layers.size() > 2 && layers.back() != layers[layers.size() - 2] + 1)
      return Diagnostic(Diag::OutOfRange, item.location)
             << "layer '" << name
             << "' does not follow the one before it; a stage has neighbouring "
             << "layers in the order of the model";
  }
  if (layers.back() < layers.front() || (layers.size() > 2 && layers[1] != layers[0] + 1))
    return Diagnostic(Diag::OutOfRange, node.location)
           << "the layers of a stage stand in the order of the model";
  stage.begin = layers.front();
  stage.end = layers.back() + 1;
  return Error::success();
}

Error PlacementReader::readDevices(const YamlNode &node, StatedStage &stage) {
  if (node.kind != YamlNode::Kind::Mapping || node.entries.empty())
    return Diagnostic(Diag::WrongType, node.location)
           << "devices must be a mapping from device types to how many ({v100: 4}), or to how many "
           << "in each of so many nodes ({v100: [2, 2]})";
  for (const YamlEntry &entry : node.entries) {
    std::vector<int> types = typesNamed(problem.cluster, entry.key);
    std::vector<int> inNodes;
    if (types.empty())
      return Diagnostic(Diag::UnknownDevice, entry.location)
             << "cluster '" << problem.cluster.name << "' has no device type '" << entry.key << "'"
             << didYouMean(entry.key, namesOf(problem.cluster.types));
    if (Error error = readCount(entry, inNodes))
      return error;
    if (entry.value.kind != YamlNode::Kind::Sequence)
      takeDevices(std::move(types), inNodes.front(), stage);
    else if (Error error = takeNodes(entry, types, inNodes, stage))
      return error;
  }
  return Error::success();
}

/// How many devices in each of so many nodes, or just how many.
Error PlacementReader::readCount(const YamlEntry &entry, std::vector<int> &inNodes) const {
  ArrayRef<YamlNode> values = entry.value;
  if (entry.value.kind == YamlNode::Kind::Sequence)
    values = entry.value.items;
  if (values.empty() || values.size() > mostDevices)
    return Diagnostic(Diag::OutOfRange, entry.location)
           << "'" << entry.key << "' in " << values.size() << " nodes; accepted are 1 to "
           << mostDevices;
  int64_t all = 0;
  for (const YamlNode &value : values) {
    if (Error error = readInteger(value, "number of '" + entry.key + "'", 1, mostDevices,
                                  inNodes.emplace_back()))
      return error;
    all += inNodes.back();
  }
  if (all > mostDevices)
    return Diagnostic(Diag::OutOfRange, entry.location)
           << all << " devices of '" << entry.key << "'; accepted are 1 to " << mostDevices;
  return Error::success();
}

/// Takes the first of the node classes `types` that has so many devices in its nodes.
Error PlacementReader::takeNodes(const YamlEntry &entry, ArrayRef<int> types, ArrayRef<int> inNodes,
                                 StatedStage &stage) {
  int count = std::accumulate(inNodes.begin(), inNodes.end(), 0);
  int nodes = static_cast<int>(inNodes.size()),
      most = *std::max_element(inNodes.begin(), inNodes.end());
  for (int type : types) {
    int inNode = devicesPerNode(problem.cluster, type), all = problem.cluster.deviceCount(type);
    inNode = inNode ? inNode : all;
    if (left[type] < count || most > inNode || nodes > all / inNode)
      continue;
    stage.devices.push_back({type, count});
    stage.spread[type] = {nodes, most};
    left[type] -= count;
    return Error::success();
  }
  return Diagnostic(Diag::OutOfRange, entry.location)
         << "no " << nodes << " nodes that are alike have so many '" << entry.key << "' left";
}

/// Takes the smallest of the node classes `types` that holds all devices; else several classes,
/// largest first. A missing device is missing in the last class.
void PlacementReader::takeDevices(std::vector<int> types, int count, StatedStage &stage) {
  auto holdsLess = [&](int a, int b) { return left[a] < left[b]; };
  std::stable_sort(types.begin(), types.end(), holdsLess);
  auto whole = find_if(types, [&](int type) { return left[type] >= count; });
  if (whole != types.end())
    types = {*whole};
  while (count > 0) {
    int type = types.back();
    types.pop_back();
    int taken = types.empty() ? count : std::min(count, std::max(0, left[type]));
    if (taken > 0)
      stage.devices.push_back({type, taken});
    left[type] -= taken;
    count -= taken;
  }
}

Error PlacementReader::readShares(const YamlNode &node, StatedStage &stage) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << "shares must be a list of samples";
  int most = static_cast<int>(problem.request.globalBatch.value());
  for (const YamlNode &item : node.items) {
    int share = 0;
    if (Error error = readInteger(item, "a share", 1, most, share))
      return error;
    stage.shares.push_back(share);
  }
  return Error::success();
}

Error PlacementReader::readRecompute(const YamlNode &node, StatedStage &stage) {
  std::string text;
  if (Error error = readText(node, "recompute", text))
    return error;
  if (text != "true" && text != "false")
    return Diagnostic(Diag::OutOfRange, node.location)
           << "recompute is '" << text << "'; accepted are true and false";
  stated(stage).recomputes = text == "true";
  return Error::success();
}

Error PlacementReader::readSharding(const YamlNode &node, StatedStage &stage) {
  std::string text;
  if (Error error = readText(node, "shardState", text))
    return error;
  for (int each = 0; each < stateShardings; ++each)
    if (text == nameOf(StateSharding{each})) {
      stated(stage).sharding.state = StateSharding{each};
      return Error::success();
    }
  return Diagnostic(Diag::OutOfRange, node.location)
         << "shardState is '" << text
         << "'; accepted are none, optimizer, gradients and parameters";
}

/// The stated shares of a full micro-batch, by type, largest first.
Error PlacementReader::addShares(const StatedStage &stated, PlacedStage &placed) const {
  if (stated.shares.empty())
    return Error::success();
  MicroBatches of{problem.request.globalBatch, microBatches};
  int64_t sum = std::accumulate(stated.shares.begin(), stated.shares.end(), int64_t(0));
  bool ofOne = sum == of.fullSize();
  auto odd = count_if(stated.shares, [&](int64_t share) { return !of.isMultiple(Samples(share)); });
  if (static_cast<int>(stated.shares.size()) != placed.group.replicas() ||
      (!ofOne && (sum != of.batch.value() || odd > 1)))
    return Diagnostic(Diag::OutOfRange, stated.location)
           << stated.shares.size() << " shares that sum to " << sum << " for "
           << placed.group.replicas()
           << " devices; accepted is one for each, which sum to the global "
           << "batch of " << of.batch.value() << " (all or all but one multiples of the "
           << microBatches << " micro-batches), or to a full micro-batch of " << of.fullSize();
  std::map<int, std::vector<int64_t>> byType;
  auto share = stated.shares.begin();
  for (auto [type, count] : stated.devices)
    for (int i = 0; i < count; ++i)
      byType[type].push_back(ofOne ? *share++ : of.fullPartOf(Samples(*share++)));
  for (auto &[type, shares] : byType) { // in the order of the group's types
    std::sort(shares.begin(), shares.end(), std::greater<>());
    placed.shares.push_back(std::move(shares));
  }
  return Error::success();
}

DeviceGroup PlacementReader::groupOf(const StatedStage &stated) const {
  DeviceGroup group;
  group.counts.assign(stated.devices.begin(), stated.devices.end());
  std::sort(group.counts.begin(), group.counts.end());
  std::vector<Spread> spread;
  for (size_t i = 0; i < group.counts.size(); ++i) {
    auto own = stated.spread.find(group.counts[i].first);
    spread.push_back(own == stated.spread.end() ? spreadOf(problem.cluster, group, i)
                                                : own->second);
  }
  return spreadGroup(problem.cluster, group.counts, spread);
}

Expected<Placement> PlacementReader::placement() const {
  Placement result;
  result.microBatches = microBatches;
  int position = 0;
  for (const StatedStage &stated : stages) {
    if (stated.begin != position)
      return Diagnostic(Diag::OutOfRange, stated.location)
             << "the stage begins with layer '" << problem.graph.layers[stated.begin].name << "'; '"
             << problem.graph.layers[std::min(position, problem.graph.size() - 1)].name
             << "' comes next";
    PlacedStage &placed = result.stages.emplace_back();
    placed.begin = stated.begin;
    placed.end = position = stated.end;
    placed.group = groupOf(stated);
    placed.mode = stated.mode;
    if (Error error = addShares(stated, placed))
      return error;
  }
  if (position != problem.graph.size())
    return Diagnostic(Diag::OutOfRange, location)
           << "layer '" << problem.graph.layers[position].name << "' is in no stage";
  return result;
}

/// Traffic between zones is charged for boundaries only.
Error verifyZones(const Placement &placement, const Cluster &cluster) {
  for (size_t i = 0; chargesTraffic(cluster) && i < placement.stages.size(); ++i)
    if (!zoneOf(cluster, placement.stages[i].group))
      return Diagnostic(Diag::NotSupported, {"", 0, 0, "stages[" + std::to_string(i) + "]"})
             << "a stage in several zones, of which one states price_per_gb, is not supported";
  return Error::success();
}

/// The mode of a stage of a plan; none if `request` asks for another one.
std::optional<ExecutionMode> modeOf(const Stage &stage, const Request &request) {
  const ExecutionMode mode{!stage.recompute.empty(), stage.sharding};
  return request.admits(mode, int(stage.replicas.size())) ? std::optional(mode) : std::nullopt;
}

Error notOneDeviceEach(size_t stage) {
  return Diagnostic(Diag::NotSupported, {"", 0, 0, "stages[" + std::to_string(stage) + "]"})
         << "a replica of several devices, or a device of several stages, cannot be evaluated";
}
} // namespace

Expected<Placement> parsePlacement(StringRef text, StringRef path, const Problem &problem) {
  Expected<YamlNode> root = parseYaml(text, path);
  if (!root)
    return root.takeError();
  PlacementReader reader(problem);
  if (Error error = reader.read(*root))
    return error;
  Expected<Placement> placement = reader.placement();
  if (!placement)
    return placement;
  if (Error error = verifyZones(*placement, problem.cluster))
    return error;
  return placement;
}

Expected<Placement> placementOf(const Plan &plan, const Problem &problem) {
  Placement result;
  result.microBatches = plan.microBatches;
  MicroBatches microBatches{plan.globalBatch, plan.microBatches};
  std::set<DeviceRef> used;
  int position = 0;
  for (size_t index = 0; index < plan.stages.size(); ++index) {
    const Stage &stage = plan.stages[index];
    PlacedStage &placed = result.stages.emplace_back();
    placed.begin = position;
    for (const std::string &layer : stage.layers)
      if (problem.graph.find(layer) != position++)
        return Diagnostic(Diag::InvalidPlan, {"", 0, 0, "stages[" + std::to_string(index) + "]"})
               << "layer '" << layer << "' is not the next one of the model";
    placed.end = position;
    std::map<int, std::vector<int64_t>> shares;
    std::vector<DeviceRef> devices;
    for (const Replica &replica : stage.replicas) {
      if (replica.devices.size() != 1 || !used.insert(replica.devices[0]).second)
        return notOneDeviceEach(index);
      int type = problem.cluster.typeIndex(replica.devices[0]);
      if (type < 0)
        return Diagnostic(Diag::UnknownDevice, {"", 0, 0, "stages[" + std::to_string(index) + "]"})
               << "cluster '" << problem.cluster.name << "' has no device type '"
               << replica.devices[0].type << "'";
      shares[type].push_back(microBatches.fullPartOf(replica.share));
      devices.push_back(replica.devices[0]);
    }
    placed.group = groupOf(problem.cluster, devices);
    placed.mode = modeOf(stage, problem.request);
    for (auto &[type, ofType] : shares) {
      std::sort(ofType.begin(), ofType.end(), std::greater<>());
      placed.shares.push_back(std::move(ofType));
    }
  }
  if (position != problem.graph.size())
    return Diagnostic(Diag::InvalidPlan, Location{})
           << "the plan has " << position << " layers, the model " << problem.graph.size();
  if (Error error = verifyZones(result, problem.cluster))
    return error;
  return result;
}

} // namespace heterplan
