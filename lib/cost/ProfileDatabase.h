// Measured times, indexed for pricing: a series of (batch, time) for each layer and device type.
// Between and beyond its points a series is interpolated; what it was asked for exactly, it
// answers with the measurement itself.
#pragma once

#include "cost/CostModel.h"
#include "ir/Profile.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// Times of one layer on one device type by batch.
class ProfileSeries {
public:
  /// Adds a measurement; one of the same batch is replaced, and returned.
  std::optional<ProfileEntry> add(const ProfileEntry &entry);
  bool empty() const { return points.empty(); }

  /// Forward and backward at `batch` (at least 1); the series is not empty. Measured at a point's
  /// batch, else Interpolated:
  /// - between two points: linear;
  /// - below the smallest: max(t·b/b_1, m·b + c) with the line through the first two points: the
  ///   form max(floor, m·b + c) of LB-BSP (Chen et al., SoCC 2020) where the floor is not
  ///   known: a flat start stays flat, and nothing is faster than proportional;
  /// - beyond the largest: the line through the last two points goes on;
  /// - with one point only: proportional to the batch.
  /// Lines never fall: a slope below 0 counts as 0. Update: that of the nearest point at or below
  /// `batch`, else of the smallest; 0 where it is counted in backward.
  LayerCost at(Samples batch) const;

private:
  std::vector<ProfileEntry> points; // ascending batches
};

class ProfileDatabase {
public:
  /// Takes in all entries of `profile`. An entry for the same layer, device type and batch as an
  /// earlier one replaces it; one that differs is a note of the result. `path` is for messages.
  std::vector<std::string> add(const Profile &profile, llvm::StringRef path);

  /// Entries for `layer` of `model` on `device`: by name in a profile of that model (or of any),
  /// then by signature; under the device type's own name, then under its catalogue name. Or null.
  const ProfileSeries *find(const Layer &layer, llvm::StringRef model,
                            const DeviceType &device) const;

  /// Puts measured bandwidth and latency in place of those of the links of `cluster` that have the
  /// name of a measured one.
  void applyLinks(Cluster &cluster) const;

  /// The files taken in, in order.
  const std::vector<std::string> &files() const { return paths; }
  const std::vector<std::string> &fingerprints() const { return hashes; }

private:
  /// All that is known of one device type.
  struct Device {
    llvm::StringMap<ProfileSeries> bySignature;
    llvm::StringMap<llvm::StringMap<ProfileSeries>> byModel; // model ("": any) -> layer
  };
  static const ProfileSeries *find(const Device &device, const Layer &layer, llvm::StringRef model);

  llvm::StringMap<Device> devices;
  llvm::StringMap<Link> links; // measured
  std::vector<std::string> paths, hashes;
};

} // namespace heterplan
