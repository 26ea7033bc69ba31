#include "cost/ShardGroups.h"

#include "cost/Collectives.h"
#include "ir/PlanShards.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// The speed of each group of `degree` neighbours: that of its slowest device.
std::vector<double> slowestOf(ArrayRef<double> speeds, int degree) {
  std::vector<double> result;
  for (; speeds.size() >= size_t(degree); speeds = speeds.drop_front(degree))
    result.push_back(*std::min_element(speeds.begin(), speeds.begin() + degree));
  return result;
}

void groupDevices(NodeGroup &node, int degree) {
  for (auto each = node.devices.begin(); each != node.devices.end();) {
    auto &[type, count] = *each;
    count /= degree;
    if (auto speeds = node.speeds.find(type); speeds != node.speeds.end())
      speeds->second = slowestOf(speeds->second, degree);
    if (count == 0) {
      node.speeds.erase(type);
      each = node.devices.erase(each);
    } else {
      ++each;
    }
  }
}

} // namespace

Expected<Cluster> shardGroups(Cluster cluster, int degree) {
  for (NodeGroup &node : cluster.nodes)
    groupDevices(node, degree);
  erase_if(cluster.nodes, [](const NodeGroup &node) { return node.devices.empty(); });
  erase_if(cluster.types, [&](const DeviceType &type) {
    return none_of(cluster.nodes,
                   [&](const NodeGroup &node) { return node.devices.count(type.name); });
  });
  if (cluster.nodes.empty())
    return Diagnostic(Diag::OutOfRange, {cluster.name, 0, 0, ""})
               .note({}, "devices that share a layer lie in one node; give --tensor-parallel a "
                         "number that some node has of one type")
           << "no node has " << degree << " devices of one type to share layers";
  for (DeviceType &type : cluster.types)
    type.price = type.price * double(degree);
  cluster.network = partOf(std::move(cluster.network), degree);
  for (Zone &zone : cluster.zones) {
    zone.network = partOf(std::move(zone.network), degree);
    zone.pricePerGb = zone.pricePerGb * double(degree);
  }
  for (PlaceLink &link : cluster.links)
    link.network = partOf(std::move(link.network), degree);
  cluster.shardDegree = degree;
  return cluster;
}

namespace {
/// Whether groups of `degree` devices always find room beside smaller ones and larger ones where
/// stages fill nodes of `inNode` devices: the parts of a node that stages of groups take are
/// parts that stages of devices take, too.
bool dividesNodes(int inNode, int degree) {
  if (inNode % degree != 0)
    return false;
  int part = inNode; // a chain of divisors, the smallest prime first, as stages fill nodes
  for (int prime = 2; part > degree;) {
    if (part % prime == 0)
      part /= prime;
    else
      ++prime;
  }
  return part == degree;
}

/// Whether groups of `degree` devices of `type` are of use to searches.
bool mayGroup(const Cluster &cluster, const DeviceType &type, int degree) {
  int nodes = 0, inNode = 0;
  for (const NodeGroup &node : cluster.nodes) {
    auto found = node.devices.find(type.name);
    if (found == node.devices.end())
      continue;
    if (node.indices.count(type.name) || node.speeds.count(type.name))
      return false;
    nodes += node.count;
    inNode = found->second; // all nodes of a class are alike
  }
  return nodes > 1 ? dividesNodes(inNode, degree) : inNode >= degree;
}
} // namespace

Cluster withShardTypes(Cluster cluster, ArrayRef<int> degrees) {
  const int types = int(cluster.types.size());
  for (int degree : degrees)
    for (int type = 0; type < types; ++type) {
      if (degree == 1 || !mayGroup(cluster, cluster.types[type], degree))
        continue;
      DeviceType group = cluster.types[type];
      group.statedName = shardTypeName(cluster.types[type].stated(), degree);
      group.name = shardTypeName(cluster.types[type].name, degree);
      group.shards = degree;
      group.ofType = type;
      group.price = group.price * double(degree);
      for (NodeGroup &node : cluster.nodes)
        if (auto found = node.devices.find(cluster.types[type].name); found != node.devices.end())
          node.devices[group.name] = found->second / degree;
      cluster.types.push_back(std::move(group));
    }
  return cluster;
}

bool hasAllShardTypes(const Cluster &cluster, ArrayRef<int> degrees) {
  const auto whole = [](const DeviceType &type) { return type.ofType < 0; };
  return size_t(count_if(cluster.types, whole)) * degrees.size() == cluster.types.size();
}

namespace {
CollectiveCost dearer(const CollectiveCost &a, const CollectiveCost &b) {
  return {.latency = std::max(a.latency, b.latency),
          .secondsPerByte = std::max(a.secondsPerByte, b.secondsPerByte),
          .provenance = std::max(a.provenance, b.provenance)};
}
} // namespace

ShardedModel::ShardedModel(const CostModel &layer, const Cluster &cluster, int degree)
    : layer(layer) {
  for (size_t type = 0; type < cluster.types.size(); ++type) {
    Costs costs;
    for (const NodeGroup &node : cluster.nodes) {
      auto found = node.devices.find(cluster.types[type].name);
      if (found == node.devices.end() || found->second < degree)
        continue;
      Cluster alone = cluster; // the node with the type alone, so that its link counts
      alone.nodes = {node};
      alone.nodes.front().count = 1;
      DeviceGroup group{{{int(type), degree}}};
      for (auto [collective, cost] : {std::pair(ShardCollective::AllReduce, &costs.reduce),
                                      {ShardCollective::ReduceScatter, &costs.scatter},
                                      {ShardCollective::AllGather, &costs.gather}})
        *cost = dearer(*cost, shardCollectiveCost(alone, group, collective));
    }
    byType[cluster.types[type].stated()] = costs;
  }
}

Seconds ShardedModel::timeOf(const LayerCollective &each, const Costs &costs, Samples batch) const {
  const CollectiveCost &cost = each.collective == ShardCollective::AllReduce   ? costs.reduce
                               : each.collective == ShardCollective::AllGather ? costs.gather
                                                                               : costs.scatter;
  return cost.time(each.count, each.bytes(batch));
}

Expected<LayerCost> ShardedModel::price(const Layer &priced, const DeviceType &device,
                                        Samples batch) const {
  Expected<LayerCost> cost = layer.price(priced, device, batch);
  auto costs = byType.find(device.stated());
  if (!cost || priced.shardCollectives.empty() || costs == byType.end())
    return cost;
  for (const LayerCollective &each : priced.shardCollectives)
    (each.backward ? cost->backward : cost->forward) += timeOf(each, costs->second, batch);
  cost->provenance = std::max(cost->provenance, costs->second.reduce.provenance);
  return cost;
}

ShardTypesModel::ShardTypesModel(const CostModel &layer, const LayerGraph &graph,
                                 const Cluster &devices, const Cluster &cluster)
    : layer(layer), types(cluster.types) {
  for (int i = 0; i < graph.size(); ++i)
    indices[graph.layers[i].name] = i;
  for (const DeviceType &type : types)
    if (type.ofType >= 0 && !degrees.count(type.shards))
      degrees.emplace(type.shards, Degree{graph.ofDegree(type.shards),
                                          ShardedModel(layer, devices, type.shards)});
}

const Layer &ShardTypesModel::localOf(const Layer &whole, const DeviceType &device) const {
  return degrees.at(device.shards).graph.layers[indices.find(whole.name)->second];
}

Expected<LayerCost> ShardTypesModel::price(const Layer &priced, const DeviceType &device,
                                           Samples batch) const {
  if (device.ofType < 0)
    return layer.price(priced, device, batch);
  return degrees.at(device.shards)
      .model.price(localOf(priced, device), types[device.ofType], batch);
}

bool ShardTypesModel::mayFall(const Layer &priced, const DeviceType &device) const {
  return device.ofType < 0 ? layer.mayFall(priced, device)
                           : layer.mayFall(localOf(priced, device), types[device.ofType]);
}

} // namespace heterplan
