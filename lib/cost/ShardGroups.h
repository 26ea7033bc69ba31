// Tensor parallelism as planning sees it: groups of devices of one node that share every layer
// count as one device each. Layers are those of a shard, and their collectives are a part of their
// times.
#pragma once

#include "cost/CostModel.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace heterplan {

/// `cluster` where each device stands for `degree` devices of its type in a node. Devices that are
/// left over in a node are left out. A device has the memory and the speed of one shard, the
/// slowest of them, and the price of all. All shards send at once, so that networks between nodes
/// have 1/degree of their bandwidth, and traffic that leaves a zone costs `degree` times as much;
/// the links within nodes keep theirs. Fails with OutOfRange if no node has as many devices of one
/// type.
llvm::Expected<Cluster> shardGroups(Cluster cluster, int degree);

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
    Seconds reduceLatency{}, halfLatency{};
    double reducePerByte = 0, halfPerByte = 0;
    Provenance provenance = Provenance::Measured;
  };
  const CostModel &layer;
  llvm::StringMap<Costs> byType; // by DeviceType::stated()
};

} // namespace heterplan
