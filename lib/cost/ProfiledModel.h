// Measured times first, what they say about layers like the measured ones next, a model where they
// say nothing. Each price says which of these it is.
#pragma once

#include "cost/LayerRegression.h"

namespace heterplan {

/// Prices by what is known best:
/// - a measurement of this layer on this device type at this batch (Measured);
/// - those of other batches (Interpolated);
/// - those of other layers of its class on this device type (Regressed);
/// - `fallback` (Modelled).
class ProfiledModel : public CostModel {
public:
  /// `database`, `regression` and `fallback` outlive the model. Without a fallback (null:
  /// --require-measured) the last two are a NoProfile error that names layer, device type and
  /// batch; so are calibrated entries that were modelled or regressed. `regression` may be null.
  ProfiledModel(const ProfileDatabase &database, std::string model, const CostModel *fallback,
                const LayerRegression *regression = nullptr)
      : database(database), model(std::move(model)), fallback(fallback), regression(regression) {}

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;
  bool mayFall(const Layer &layer, const DeviceType &device) const override;

private:
  /// Infers the cost of a layer without an entry.
  llvm::Expected<LayerCost> infer(const Layer &layer, const DeviceType &device,
                                  Samples batch) const;

  const ProfileDatabase &database;
  std::string model;
  const CostModel *fallback;
  const LayerRegression *regression;
};

} // namespace heterplan
