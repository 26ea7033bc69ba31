// Times of layers that were not measured, from those of the same class that were, on the same type
// of device: a WorkFit for each pass of each class.
#pragma once

#include "cost/ProfileDatabase.h"
#include "cost/WorkFit.h"

#include <map>
#include <optional>

namespace heterplan {

/// Regression of the layers of one class on one device type.
struct LayerClass {
  std::string deviceType; // as the profiles call it
  LayerKind kind{};
  WorkFit forward, backward;

  /// The reason why the times of both passes cannot be inferred; empty if they can.
  std::string refusal() const;
};

class LayerRegression {
public:
  /// Trains on the points of `database` that were measured, or corrected by a run, and whose work
  /// is known: stated by a profile, or that of a layer of `graph`. It may be empty.
  LayerRegression(const ProfileDatabase &database, const LayerGraph &graph);

  /// Forward and backward, Regressed; none where the class has no usable fit. Never below the
  /// arithmetic of the layer at the device's peak, where that is known; bytes do not bound it, as
  /// caches may hold them.
  std::optional<LayerCost> price(const Layer &layer, const DeviceType &device, Samples batch) const;
  /// By a fit over all classes, in the bytes of the parameters; 0 where backward has it already.
  std::optional<Seconds> update(const Layer &layer, const DeviceType &device) const;

  /// The class that prices `kind` on `device`, usable or not; or null.
  const LayerClass *find(LayerKind kind, const DeviceType &device) const;
  /// By device type, then by kind.
  std::vector<const LayerClass *> classes() const;
  /// Entries far from what the others of their class say, by place.
  const std::vector<ProfileWarning> &outliers() const { return warnings; }

private:
  struct Training; // what one device type has measured
  void train(llvm::StringRef deviceType, const Training &training);

  std::map<std::string, std::map<LayerKind, LayerClass>> byType;
  std::map<std::string, WorkFit> updates;
  /// Device types whose entries with parameters state no update: it is part of backward.
  std::map<std::string, bool> updateInBackward;
  std::vector<ProfileWarning> warnings;
};

} // namespace heterplan
