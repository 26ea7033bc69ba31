// Devices of one type that differ: what is measured or modelled of the type, at the speed of each.
#pragma once

#include "cost/CostModel.h"

namespace heterplan {

/// The times of `type`, divided by DeviceType::speed. Measured times of the type count as
/// Interpolated on a device whose speed is not 1.
class SpeedModel : public CostModel {
public:
  /// `type` outlives the model.
  explicit SpeedModel(const CostModel &type) : type(type) {}

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;
  bool mayFall(const Layer &layer, const DeviceType &device) const override {
    return type.mayFall(layer, device);
  }

private:
  const CostModel &type;
};

} // namespace heterplan
