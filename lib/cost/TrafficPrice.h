// The price of clouds for data that leaves a zone (Zone::pricePerGb).
#pragma once

#include "cost/Collectives.h"
#include "ir/MicroBatches.h"

namespace heterplan {

/// Whether any zone charges for what leaves it.
bool chargesTraffic(const Cluster &cluster);

/// The zone in which all devices of `group` lie; null where they lie in several, or in none.
const Zone *zoneOf(const Cluster &cluster, const DeviceGroup &group);

/// The devices on one side of a boundary.
struct BoundarySide {
  const Zone *zone = nullptr; // of all of them; null: of none, or several
  int replicas = 1;

  static BoundarySide of(const Cluster &cluster, const DeviceGroup &group) {
    return {zoneOf(cluster, group), group.replicas()};
  }
};

/// The price of an iteration for a boundary of two stages whose devices lie in one zone each: the
/// sender's price for activations, and the receiver's for their gradients. Tensors that do not grow
/// with the batch go to each device behind, in each micro-batch.
Dollars priceOfBoundary(const BoundarySide &before, const BoundarySide &behind, const Cut &cut,
                        const MicroBatches &samples);

} // namespace heterplan
