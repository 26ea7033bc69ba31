// A cost model without hardware: times are stated per layer and per device type. Makes tests of
// search deterministic and lets expected plans be computed by hand.
#pragma once

#include "cost/CostModel.h"

#include <map>
#include <optional>
#include <string>

namespace heterplan {

/// forward = (overhead + batch · forward per sample) / speed of the type, backward likewise; update
/// does not depend on the batch. A layer without an entry takes the default, or is a NoProfile
/// error if there is none. Types have speed 1 unless stated.
class ConstantCostModel : public CostModel {
public:
  struct Times {
    Seconds forward{};  // per sample
    Seconds backward{}; // per sample
    Seconds update{};   // per iteration
    Seconds overhead{}; // of each pass, whatever the batch
    Seconds accumulate{};
  };

  ConstantCostModel() = default;
  explicit ConstantCostModel(Times byDefault) : fallback(byDefault) {}

  ConstantCostModel &layer(llvm::StringRef name, Times times) {
    layers[name.str()] = times;
    return *this;
  }
  /// `type` is `factor` times as fast as stated, for all layers.
  ConstantCostModel &speed(llvm::StringRef type, double factor) {
    speeds[type.str()] = factor;
    return *this;
  }
  /// Times of one layer on one type, which no speed scales.
  ConstantCostModel &entry(llvm::StringRef layer, llvm::StringRef type, Times times) {
    entries[{layer.str(), type.str()}] = times;
    return *this;
  }
  ConstantCostModel &from(Provenance origin) {
    provenance = origin;
    return *this;
  }

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override {
    if (auto match = entries.find({layer.name, device.name}); match != entries.end())
      return scaled(match->second, batch, 1);
    auto speed = speeds.find(device.name);
    double factor = speed == speeds.end() ? 1 : speed->second;
    if (auto match = layers.find(layer.name); match != layers.end())
      return scaled(match->second, batch, factor);
    if (fallback)
      return scaled(*fallback, batch, factor);
    return Diagnostic(Diag::NoProfile, device.location)
           << "layer '" << layer.name << "' has no time on device type '" << device.name << "'";
  }

private:
  LayerCost scaled(const Times &times, Samples batch, double speed) const {
    double samples = static_cast<double>(batch.value());
    return {(times.overhead + times.forward * samples) / speed,
            (times.overhead + times.backward * samples) / speed, times.update / speed, provenance,
            times.accumulate / speed};
  }

  std::optional<Times> fallback;
  std::map<std::string, Times> layers;
  std::map<std::string, double> speeds;
  std::map<std::pair<std::string, std::string>, Times> entries;
  Provenance provenance = Provenance::Modelled;
};

} // namespace heterplan
