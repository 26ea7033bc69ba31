// Tensor parallelism as planning sees it: groups of devices of one node that share every layer
// count as one device each. Layers are those of a shard, and their collectives are a part of their
// times.
#pragma once

#include "cost/Collectives.h"
#include "cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>
#include <vector>

namespace heterplan {

/// `cluster` where each device stands for `degree` devices of its type in a node. Devices that are
/// left over in a node are left out. A device has the memory and the speed of one shard, the
/// slowest of them, and the price of all. All shards send at once, so that networks between nodes
/// have 1/degree of their bandwidth, and traffic that leaves a zone costs `degree` times as much;
/// the links within nodes keep theirs. Fails with OutOfRange if no node has as many devices of one
/// type.
llvm::Expected<Cluster> shardGroups(Cluster cluster, int degree);

/// `cluster`, whose node classes are separate, with a type more for each of its types and each of
/// `degrees` above 1, where nodes have room for groups of so many devices
/// (DeviceType::shards, ofType), called shardTypeName(). A group lies in one node, has the memory
/// and the speed of one device and the price of all. Types whose nodes the groups do not divide are
/// left out of it, and so are those with devices of unlike speeds in a node.
Cluster withShardTypes(Cluster cluster, llvm::ArrayRef<int> degrees);
/// Whether `cluster` has groups of each of `degrees` of all of its devices.
bool hasAllShardTypes(const Cluster &cluster, llvm::ArrayRef<int> degrees);

/// Adds the collectives of LayerGraph::shardDegree devices to the times of layers: ring collectives
/// over the slowest link of the nodes that have the type.
class ShardedModel : public CostModel {
public:
  /// `cluster`: the devices themselves, not groups of them. `layer`, the model of a layer on one
  /// device, outlives this.
  ShardedModel(const CostModel &layer, const Cluster &cluster, int degree);

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;
  bool mayFall(const Layer &layer, const DeviceType &device) const override {
    return this->layer.mayFall(layer, device);
  }

private:
  struct Costs;
  Seconds timeOf(const LayerCollective &each, const Costs &costs, Samples batch) const;

  struct Costs {
    CollectiveCost reduce, scatter, gather;
  };
  const CostModel &layer;
  llvm::StringMap<Costs> byType; // by DeviceType::stated()
};

/// Prices layers on types that stand for several devices: as layers of a shard of these
/// (LayerGraph::ofDegree), with their collectives.
class ShardTypesModel : public CostModel {
public:
  /// `devices`: the cluster before its node classes were separated; `cluster`: with the types of
  /// withShardTypes(). `layer`, the model of a layer on one device, outlives this.
  ShardTypesModel(const CostModel &layer, const LayerGraph &graph, const Cluster &devices,
                  const Cluster &cluster);

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;
  bool mayFall(const Layer &layer, const DeviceType &device) const override;

private:
  struct Degree {
    LayerGraph graph;
    ShardedModel model;
  };
  /// The layer of a shard that stands for `layer` on `device`.
  const Layer &localOf(const Layer &layer, const DeviceType &device) const;

  const CostModel &layer;
  std::vector<DeviceType> types; // of the cluster
  llvm::StringMap<int> indices;  // of layers by name
  std::map<int, Degree> degrees;
};

} // namespace heterplan
