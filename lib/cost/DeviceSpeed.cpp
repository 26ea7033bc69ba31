#include "cost/DeviceSpeed.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

Expected<LayerCost> SpeedModel::price(const Layer &layer, const DeviceType &device,
                                      Samples batch) const {
  Expected<LayerCost> cost = type.price(layer, device, batch);
  if (!cost || device.speed == 1)
    return cost;
  for (Seconds *time : {&cost->forward, &cost->backward, &cost->update, &cost->accumulate})
    *time = *time / device.speed;
  cost->provenance = std::max(cost->provenance, Provenance::Interpolated);
  return cost;
}

} // namespace heterplan
