#include "cost/ProfiledModel.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// For a message.
std::string shardDegreeField(const Layer &layer) {
  return layer.shardDegree == 1 ? "" : ", \"shardDegree\": " + std::to_string(layer.shardDegree);
}
} // namespace

Expected<LayerCost> ProfiledModel::price(const Layer &layer, const DeviceType &device,
                                         Samples batch) const {
  if (batch.value() < 1)
    return Diagnostic(Diag::OutOfRange, {})
           << "layer '" << layer.name << "' cannot be priced at batch " << batch.value();
  if (const ProfileSeries *series = database.find(layer, model, device)) {
    LayerCost cost = series->at(batch);
    if (fallback || cost.provenance <= Provenance::Interpolated)
      return cost;
  }
  if (fallback)
    return infer(layer, device, batch);
  std::string file = database.files().empty() ? "a profile" : database.files().back();
  return Diagnostic(Diag::NoProfile, {file, 0, 0, ""})
             .note({}, "add an entry with \"layer\": \"" +
                           StringRef(layer.name).take_front(100).str() + "\" (or its signature)" +
                           shardDegreeField(layer) + " and \"deviceType\": \"" +
                           StringRef(device.name).take_front(100).str() +
                           "\", or drop --require-measured")
         << "layer '" << layer.name << "'" << degreeText(layer.shardDegree)
         << " was not measured on device type '" << device.name << "' (asked at batch "
         << batch.value() << ")";
}

namespace {
/// Half way between what other layers of the class say and the model, whose interval is narrow:
/// neither is known to be the better one, and what lies outside of the interval is an
/// extrapolation.
void drawTowards(const LayerCost &modelled, LayerCost &inferred) {
  const double most = std::exp(modelled.halfWidth / 2);
  auto draw = [&](Seconds model, Seconds &time) {
    if (model > Seconds(0) && time > Seconds(0))
      time = model * std::clamp(std::sqrt(time.value() / model.value()), 1 / most, most);
  };
  draw(modelled.forward, inferred.forward);
  draw(modelled.backward, inferred.backward);
  inferred.halfWidth = std::min(inferred.halfWidth > 0 ? inferred.halfWidth : modelled.halfWidth,
                                modelled.halfWidth);
}
} // namespace

bool ProfiledModel::mayFall(const Layer &layer, const DeviceType &device) const {
  const ProfileSeries *series = database.find(layer, model, device);
  return series && series->falls();
}

Expected<LayerCost> ProfiledModel::infer(const Layer &layer, const DeviceType &device,
                                         Samples batch) const {
  std::optional<LayerCost> inferred;
  if (regression)
    inferred = regression->price(layer, device, batch);
  if (!inferred)
    return fallback->price(layer, device, batch);
  std::optional<Seconds> update = regression->update(layer, device);
  Expected<LayerCost> modelled = fallback->price(layer, device, batch);
  if (modelled && modelled->halfWidth > 0)
    drawTowards(*modelled, *inferred);
  if (update) {
    inferred->update = *update;
    inferred->accumulate = modelled ? modelled->accumulate : *update; // which moves no less
    if (!modelled)
      consumeError(modelled.takeError());
    return *inferred;
  }
  if (!modelled)
    return modelled.takeError();
  inferred->update = modelled->update;
  inferred->accumulate = modelled->accumulate;
  inferred->provenance = modelled->provenance; // as good as its worst part
  return *inferred;
}

} // namespace heterplan
