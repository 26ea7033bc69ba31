// Measured times, indexed by layer: a series of (batch, time) for each layer and device type,
// merged from any number of profiles. At a measured batch a series returns the measurement itself;
// at other batches it uses BatchFit.
#pragma once

#include "cost/BatchFit.h"
#include "cost/CostModel.h"
#include "ir/Profile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// One entry of one of the profiles of a database.
struct EntryPlace {
  unsigned file = 0;  // index into ProfileDatabase::files()
  unsigned entry = 0; // index into Profile::entries
  auto operator<=>(const EntryPlace &) const = default;
};

/// A doubt about an entry of the profile, which may be used all the same.
struct ProfileWarning {
  Diag code{}; // ProfileConflict or ProfileOutlier
  EntryPlace place;
  std::string text;
};

struct ProfilePoint {
  Samples batch{};
  Seconds forward{}, backward{};
  std::optional<Seconds> update;
  Seconds accumulate{};
  double spread = 0;
  Provenance provenance = Provenance::Measured;
  bool calibrated = false; // corrects others: no conflict
  EntryPlace place;
  bool hasLoss = false; // the loss of what the layer returns is in the passes
};

/// Times of one layer on one device type by batch.
class ProfileSeries {
public:
  /// Takes in a point; call settle() before anything else.
  void add(const ProfilePoint &point) { pending.push_back(point); }
  /// Merges what was added. If two points have the same batch, the point stays whose profile has
  /// the newer date (`dates`, by file); a profile without a date is the oldest; with equal dates
  /// the later addition stays. `lost` receives each dropped point with the one that stays.
  void settle(const std::vector<std::string> &dates,
              llvm::function_ref<void(const ProfilePoint &, const ProfilePoint &)> lost);

  bool empty() const { return points.empty(); }
  const std::vector<ProfilePoint> &all() const { return points; } // ascending batches
  const BatchFit &forwardFit() const { return forward; }
  const BatchFit &backwardFit() const { return backward; }

  /// Forward and backward at `batch` (at least 1); the series is not empty. At a point's batch its
  /// own times and origin, else those of BatchFit, Interpolated or worse. Update: that of the
  /// nearest point at or below `batch`, else of the smallest; 0 where it is counted in backward.
  /// Half-width: the spread of the point; elsewhere that of the point below or, where it is larger,
  /// by what inner points are off the lines between their neighbours at most.
  LayerCost at(Samples batch) const;
  /// Whether a pass, or the update, takes less time at some batch than at a smaller one.
  bool falls() const;

private:
  std::vector<ProfilePoint> points;  // ascending batches
  std::vector<ProfilePoint> pending; // as added
  /// At a batch that is not a point's; `below`: see at().
  double halfWidthBetween(const ProfilePoint &below, bool isInside) const;

  BatchFit forward, backward;
  Provenance worst = Provenance::Measured;
  std::optional<double>
      residual; // of both passes at an inner point, by its neighbours: the largest
};

/// "1.25 ms", for messages.
std::string inMilliseconds(Seconds time);

/// "2026-01-31", with or without a time after a 'T'; what else a profile may say is no date.
bool isDate(llvm::StringRef text);

/// Whether two measurements of one thing cannot both be right: a pass differs by more than both
/// spreads and 5 % of the longer pass, and neither is a correction.
bool clearlyDiffer(const ProfilePoint &a, const ProfilePoint &b);

class ProfileDatabase {
public:
  /// Layers that equally many devices share.
  struct Layers {
    llvm::StringMap<ProfileSeries> bySignature;
    llvm::StringMap<llvm::StringMap<ProfileSeries>> byModel; // model ("": any) -> layer
  };
  /// All that is known of one device type, by the number of devices that share a layer.
  using Device = std::map<int, Layers>;

  /// Takes in all entries of `profile`; `path` is for messages. Entries for the same layer, device
  /// type and batch give way to each other as ProfileSeries::settle says; those that clearly differ
  /// are warned of at the one that gives way.
  std::vector<ProfileWarning> add(const Profile &profile, llvm::StringRef path);

  /// Entries that take clearly longer, or shorter, than those of larger, or smaller, batches of the
  /// same layer allow: off the monotone fit by more than twice their spread and 25 %, and not
  /// corrected by a run. By place.
  std::vector<ProfileWarning> outliers() const;

  /// Entries for `layer` of `model` on `device`: of its degree by name in a profile of that model
  /// (or of any), then by signature, then by the name LAYER/DEGREE of older files, then by
  /// signature of any degree, the smallest first: equal signatures are equal work. Under the device
  /// type's own name, then under its catalogue name. Or null.
  const ProfileSeries *find(const Layer &layer, llvm::StringRef model,
                            const DeviceType &device) const;

  /// Puts measured bandwidth and latency in place of those of the links of `cluster` that have the
  /// name of a measured one.
  void applyLinks(Cluster &cluster) const;
  /// Applies the measured memory of ranks beyond their tensors to devices, by the type's own name,
  /// then by its catalogue name.
  void applyMemory(Cluster &cluster) const;

  /// The ratio of whole iterations in `precision` on `device`, by its own name, then by its
  /// catalogue name, from the last file that has one; or null.
  const IterationRatio *iterations(const DeviceType &device, Precision precision) const;

  const llvm::StringMap<Device> &deviceTypes() const { return devices; }
  /// The work of layers, by signature, that the profiles state.
  const llvm::StringMap<LayerWork> &works() const { return workBySignature; }

  /// The files taken in, in order.
  const std::vector<std::string> &files() const { return paths; }
  const std::vector<std::string> &fingerprints() const { return hashes; }

private:
  static const ProfileSeries *findName(const Layers &layers, llvm::StringRef layer,
                                       llvm::StringRef model);
  static const ProfileSeries *find(const Layers &layers, const Layer &layer, llvm::StringRef model);
  static const ProfileSeries *find(const Device &device, const Layer &layer, llvm::StringRef model);
  /// The series of `entry`, an empty one when it is new.
  ProfileSeries &seriesOf(const ProfileEntry &entry, llvm::StringRef model);

  llvm::StringMap<Device> devices;
  llvm::StringMap<Link> links;               // measured
  llvm::StringMap<MemoryOverhead> overheads; // by device type
  llvm::StringMap<LayerWork> workBySignature;
  std::vector<IterationRatio> iterationRatios;
  std::vector<std::string> paths, hashes, dates;
};

} // namespace heterplan
