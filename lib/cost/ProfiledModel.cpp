#include "cost/ProfiledModel.h"

using namespace llvm;

namespace heterplan {

Expected<LayerCost> ProfiledModel::price(const Layer &layer, const DeviceType &device,
                                         Samples batch) const {
  if (batch.value() < 1)
    return Diagnostic(Diag::OutOfRange, {})
           << "layer '" << layer.name << "' cannot be priced at batch " << batch.value();
  if (const ProfileSeries *series = database.find(layer, model, device))
    return series->at(batch);
  if (fallback)
    return fallback->price(layer, device, batch);
  std::string file = database.files().empty() ? "a profile" : database.files().back();
  return Diagnostic(Diag::NoProfile, {file, 0, 0, ""})
             .note({}, "add an entry with \"layer\": \"" +
                           StringRef(layer.name).take_front(100).str() +
                           "\" (or its signature) and \"deviceType\": \"" +
                           StringRef(device.name).take_front(100).str() +
                           "\", or drop --require-measured")
         << "layer '" << layer.name << "' was not measured on device type '" << device.name
         << "' (asked at batch " << batch.value() << ")";
}

} // namespace heterplan
