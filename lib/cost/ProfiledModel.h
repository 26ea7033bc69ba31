// Measured times first, a model where there are none. Each price says which of the two it is.
#pragma once

#include "cost/ProfileDatabase.h"

namespace heterplan {

/// Prices from measurements, and from `fallback` where there are none.
class ProfiledModel : public CostModel {
public:
  /// `database` and `fallback` outlive the model. Without a fallback (null: --require-measured) a
  /// layer that was not measured is a NoProfile error that names layer, device type and batch.
  ProfiledModel(const ProfileDatabase &database, std::string model, const CostModel *fallback)
      : database(database), model(std::move(model)), fallback(fallback) {}

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;

private:
  const ProfileDatabase &database;
  std::string model;
  const CostModel *fallback;
};

} // namespace heterplan
