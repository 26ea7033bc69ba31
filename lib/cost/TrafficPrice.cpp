#include "cost/TrafficPrice.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

bool chargesTraffic(const Cluster &cluster) {
  return any_of(cluster.zones, [](const Zone &zone) { return zone.pricePerGb > Dollars(0); });
}

const Zone *zoneOf(const Cluster &cluster, const DeviceGroup &group) {
  const Zone *found = nullptr;
  for (const auto &[type, count] : group.counts)
    for (const NodeGroup &nodes : cluster.nodes) {
      if (nodes.devices.count(cluster.types[type].name) == 0)
        continue;
      auto zone = find_if(cluster.zones, [&](const Zone &each) {
        return isAt(cluster, nodes, cluster.types[type].stated(), each.name);
      });
      if (zone == cluster.zones.end() || (found && found != &*zone))
        return nullptr;
      found = &*zone;
    }
  return found;
}

Dollars priceOfBoundary(const BoundarySide &before, const BoundarySide &behind, const Cut &cut,
                        const MicroBatches &samples) {
  const Zone *from = before.zone, *to = behind.zone;
  if (!from || !to || from == to)
    return {};
  constexpr double gigabyte = 1e9;
  const double batch = double(samples.batch.value());
  auto copies = [&](const BoundarySide &receivers) {
    return double(samples.count) * receivers.replicas;
  };
  const Bytes forward = cut.forwardBytes * batch + cut.fixedBytes * copies(behind);
  const Bytes backward = cut.backwardBytes * batch + cut.fixedGradientBytes * copies(before);
  return from->pricePerGb * (forward.value() / gigabyte) +
         to->pricePerGb * (backward.value() / gigabyte);
}

} // namespace heterplan
