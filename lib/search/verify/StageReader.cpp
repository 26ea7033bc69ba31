#include "search/verify/StageReader.h"

#include "ir/NodeClasses.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr Samples mostShare(int64_t(1) << 40); // keeps products with device counts in range

/// Rows of `table` that the busiest device of `stage` receives or sends while each device looks up
/// as many, over those where all devices hold equal parts. A device receives what it does not hold,
/// and sends what it holds to each of the others.
double busiest(const Stage &stage, const SparseTable &table) {
  double most = 1;
  for (const TableShards &shards : stage.tables) {
    if (shards.table != table.parameter || shards.rows.size() < 2 || table.rows < 1)
      continue;
    const auto others = double(shards.rows.size() - 1);
    const double even = others / (others + 1);
    int64_t fewest = table.rows, largest = 0;
    for (int64_t rows : shards.rows) {
      fewest = std::min(fewest, rows);
      largest = std::max(largest, rows);
    }
    if (largest - fewest > 1) // not merely what is left when rows are divided
      most = std::max({most, double(table.rows - fewest) / double(table.rows) / even,
                       double(largest) / double(table.rows) * others / even});
  }
  return most;
}
} // namespace

std::string nameOf(const DeviceRef &device) {
  return device.type + " " + std::to_string(device.index) + " of node '" + device.node + "'";
}

bool exists(const Cluster &cluster, const DeviceRef &device) {
  return std::any_of(cluster.nodes.begin(), cluster.nodes.end(), [&](const NodeGroup &group) {
    return isNodeOf(group, device.node) && any_of(cluster.types, [&](const DeviceType &type) {
             return type.stated() == device.type &&
                    is_contained(group.indicesOf(type.name), device.index);
           });
  });
}

std::vector<DeviceRef> devicesBehind(const Cluster &cluster, const DeviceRef &device) {
  const int type = cluster.typeIndex(device);
  if (type < 0 || cluster.types[type].ofType < 0)
    return {device};
  const DeviceType &group = cluster.types[type];
  std::vector<DeviceRef> devices;
  for (int index = device.index * group.shards; index < (device.index + 1) * group.shards; ++index)
    devices.push_back({cluster.types[group.ofType].stated(), device.node, index});
  return devices;
}

StageReader::StageReader(const Plan &plan, const LayerGraph &graph, const Cluster &cluster)
    : plan(plan), graph(graph), cluster(cluster) {
  for (int i = 0; i < graph.size(); ++i)
    layerIndex[graph.layers[i].name] = i;
}

ReevaluatedStage StageReader::read(const Stage &stage) const {
  ReevaluatedStage facts;
  facts.obstacle = placeLayers(stage, facts);
  if (facts.obstacle.empty())
    facts.obstacle = placeSegments(stage, facts);
  if (facts.obstacle.empty())
    facts.obstacle = placeReplicas(stage, facts);
  return facts;
}

std::string StageReader::placeLayers(const Stage &stage, ReevaluatedStage &facts) const {
  if (stage.layers.empty())
    return "it has no layers";
  int next = -1;
  for (const std::string &name : stage.layers) {
    auto found = layerIndex.find(name);
    if (found == layerIndex.end())
      return "the model has no layer '" + name + "'";
    if (next < 0)
      facts.begin = next = found->second;
    if (found->second != next++)
      return "layer '" + name + "' does not follow the one before it";
  }
  facts.end = next;
  for (int i = facts.begin; i < facts.end; ++i) {
    const Layer &layer = graph.layers[i];
    facts.parameterBytes += layer.parameterBytes;
    facts.denseBytes += layer.parameterBytes;
    if (plan.batchNorm == BatchNorm::Synchronised) {
      facts.sums += layer.inPassAllReduces;
      facts.summedBytes += layer.inPassAllReduceBytes;
    }
    for (const SparseTable &table : layer.tables) {
      facts.denseBytes -= table.bytes();
      facts.lookups += {double(table.lookups), table.lookupBytes() * busiest(stage, table)};
    }
  }
  addTied(facts);
  addGathered(facts);
  return "";
}

/// A stage holds a copy of a tied parameter that counts in a layer before it.
void StageReader::addTied(ReevaluatedStage &facts) const {
  for (const TiedParameter &tied : graph.tiedParameters()) {
    int first = -1;
    bool outside = false;
    for (int layer : tied.layers) {
      bool isInside = layer >= facts.begin && layer < facts.end;
      first = isInside && first < 0 ? layer : first;
      outside |= !isInside;
    }
    if (first < 0)
      continue;
    if (outside)
      facts.tiedOutside += tied.bytes;
    if (tied.layers.front() >= facts.begin)
      continue;
    facts.copies[first] += tied.bytes;
    facts.parameterBytes += tied.bytes;
    facts.denseBytes += tied.bytes;
  }
}

/// A layer gathers its own parameters, unless another stage uses some of them, and anew those of
/// each earlier layer of which it uses some.
void StageReader::addGathered(ReevaluatedStage &facts) const {
  const auto isInside = [&](int layer) { return layer >= facts.begin && layer < facts.end; };
  std::set<int> whole;
  std::set<std::pair<int, int>> again; // by layer: an earlier one
  for (const TiedParameter &tied : graph.tiedParameters()) {
    const int first = tied.layers.front();
    for (int layer : tied.layers)
      if (!isInside(layer))
        whole.insert(first);
      else if (layer != first)
        again.insert({layer, first});
  }
  facts.gathered.resize(size_t(facts.end - facts.begin));
  for (const auto &[layer, bytes] : facts.copies)
    facts.wholeBytes += bytes;
  for (int i = facts.begin; i < facts.end; ++i) {
    if (whole.count(i))
      facts.wholeBytes += graph.layers[i].denseBytes();
    again.insert({i, i});
  }
  for (auto [layer, from] : again) {
    if (!isInside(from) || whole.count(from) || graph.layers[from].denseBytes() == Bytes())
      continue;
    GatheredLayer &of = facts.gathered[size_t(layer - facts.begin)];
    ++of.count;
    of.bytes += graph.layers[from].denseBytes();
  }
}

/// Segments are runs of the stage's layers, the first one from its beginning, and begin where the
/// model may be cut.
std::string StageReader::placeSegments(const Stage &stage, ReevaluatedStage &facts) const {
  std::vector<bool> allowed = graph.allowedCuts();
  for (const std::string &name : stage.recompute) {
    auto found = layerIndex.find(name);
    int least = facts.segments.empty() ? facts.begin : facts.segments.back() + 1;
    int most = facts.segments.empty() ? facts.begin : facts.end - 1;
    if (found == layerIndex.end() || found->second < least || found->second > most)
      return "'" + name + "' does not begin a segment of it";
    if (!facts.segments.empty() && !allowed[found->second])
      return "a segment may not begin with '" + name + "', which parts a shared parameter";
    facts.segments.push_back(found->second);
  }
  return "";
}

std::string StageReader::placeReplicas(const Stage &stage, ReevaluatedStage &facts) const {
  if (stage.replicas.empty())
    return "it has no replicas";
  std::vector<DeviceRef> devices;
  for (const Replica &replica : stage.replicas) {
    if (replica.devices.size() != 1)
      return "a replica of " + std::to_string(replica.devices.size()) + " devices has no price yet";
    const DeviceRef &device = replica.devices.front();
    if (!exists(cluster, device))
      return "the cluster has no device " + nameOf(device);
    if (replica.share < Samples(1) || plan.microBatches < 1)
      return "a replica has no samples";
    if (replica.share > mostShare)
      return "a share of " + std::to_string(replica.share.value()) + " samples is out of range";
    int type = cluster.typeIndex(device);
    if (!facts.replicas.empty() &&
        cluster.types[type].shards != cluster.types[facts.replicas.front().type].shards)
      return "its replicas have unequal degrees";
    int64_t share = replica.share.value(), parts = plan.microBatches;
    facts.replicas.push_back(
        {type, Samples(share / parts + (share % parts != 0)), {}, {}, {}, {}, {}, {}});
    facts.mostSamples = std::max(facts.mostSamples, facts.replicas.back().samples);
    devices.push_back(device);
  }
  facts.group = groupOf(cluster, devices);
  bool divides = facts.replicas.size() > 1;
  facts.updatesSlices = divides && stage.sharding.dividesState();
  facts.gathersParameters = divides && stage.sharding.gathersParameters();
  facts.scattersGradients = divides && stage.sharding.scattersGradients();
  return "";
}

} // namespace heterplan
