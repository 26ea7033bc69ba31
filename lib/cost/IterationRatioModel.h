// Modelled times, corrected by whole iterations that were measured on devices of the type.
#pragma once

#include "cost/ProfileDatabase.h"

#include <algorithm>

namespace heterplan {

/// The times of `modelled`, times the ratio that the profiles state of the device type
/// (IterationRatio). They count as Regressed, as measurements on the type decide them.
class IterationRatioModel : public CostModel {
public:
  /// Both outlive the model.
  IterationRatioModel(const CostModel &modelled, const ProfileDatabase &profiles,
                      Precision precision)
      : modelled(modelled), profiles(profiles), precision(precision) {}

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override {
    llvm::Expected<LayerCost> cost = modelled.price(layer, device, batch);
    const IterationRatio *found = profiles.iterations(device, precision);
    if (!cost || !found)
      return cost;
    for (Seconds *time : {&cost->forward, &cost->backward, &cost->update, &cost->accumulate})
      *time = *time * found->ratio;
    cost->provenance = std::min(cost->provenance, Provenance::Regressed);
    return cost;
  }

private:
  const CostModel &modelled;
  const ProfileDatabase &profiles;
  const Precision precision;
};

} // namespace heterplan
