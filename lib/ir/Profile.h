// Measured times. An entry says how long one layer (by signature, or by name in one model) takes
// on one device type at one local batch, with the environment of the measurement.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// One layer measured for a while: trimmed means over the repetitions.
struct MeasurementSession {
  Seconds forward{}, backward{}, update{};
  double spread = 0; // relative half-width of the 95% interval of a forward and backward pass
  int repetitions = 0;
  Seconds accumulate{};
  Seconds referenceKernel{}; // a fixed piece of work, beside the passes: how fast the core was; 0:
                             // not stated
  Seconds pass() const { return forward + backward; }
  bool operator==(const MeasurementSession &) const = default;
};

struct ProfileEntry {
  std::string signature; // exactly one of signature and layer is set
  std::string layer;     // name of a layer of `Profile::model`
  int shardDegree = 1;   // devices that share the layer; times are of one, without messages
  std::string deviceType;
  Samples batch{};   // samples in one pass on one device
  Seconds forward{}; // of the whole batch
  Seconds backward{};
  std::optional<Seconds> update; // of the parameters; absent: counted in `backward`
  Seconds accumulate{}; // adding the gradients of one more micro-batch to those that are there
  double spread = 0;    // relative, of a forward and backward pass; 0: not stated
  int repetitions = 0;
  std::vector<MeasurementSession> sessions; // at different times, in order; empty: not stated
  /// The origin of the times: Measured, or their origin before a run of a plan corrected them.
  Provenance origin = Provenance::Measured;
  bool calibrated = false; // by measured timelines (cost/Calibration.h)
  std::string loss{};      // of what the layer returns, measured with it; empty: none
  /// Adds a session. The entry has trimmed means over its sessions; `spread` is that of their
  /// forward and backward passes (support/Statistics.h), of a single session its own.
  void add(const MeasurementSession &session);
  /// Sessions that it lacks until there are `wanted`. An entry that does not state its sessions is
  /// taken as it is.
  int64_t missingSessions(int64_t wanted) const;
  /// The measured layer or signature, for messages.
  const std::string &name() const { return layer.empty() ? signature : layer; }
  bool operator==(const ProfileEntry &) const = default;
};

/// " of degree 2", for messages; "" of degree 1.
std::string degreeText(int degree);

/// A measured link: points of (bytes, seconds) are reduced to latency and bandwidth. Residuals are
/// medians of the relative deviations of the points; 0: not stated.
struct LinkMeasurement {
  std::string name;
  BytesPerSecond bandwidth{};
  Seconds latency{};
  double residual = 0;
  std::optional<LinkSpeed> allReduce{}; // of a step of a ring
  double allReduceResidual = 0;
  std::optional<LookupSpeed> lookup{};
  double lookupResidual = 0;
  double overlapLoss = 0; // as in Link
  std::optional<LinkSpeed> reduceScatter{}, allGather{};
  double reduceScatterResidual = 0, allGatherResidual = 0;
  /// The origin of the times: Measured, or their origin before a run of a plan corrected them.
  Provenance origin = Provenance::Measured;
  bool calibrated = false; // by measured timelines (cost/Calibration.h)
  bool operator==(const LinkMeasurement &) const = default;
};

/// Memory of a rank on a device of `deviceType` beyond its tensors; see MemoryOverhead.
struct MemoryMeasurement {
  std::string deviceType;
  Bytes constant{};
  double factor = 1, underWay = 1;
  bool operator==(const MemoryMeasurement &) const = default;
};

/// How much longer iterations on devices of a type take than the models say, in the median of runs
/// whose throughput is known (`heterplan calibrate --throughput`).
struct IterationRatio {
  std::string deviceType;
  Precision precision = Precision::Fp32;
  double ratio = 1;
  int64_t runs = 1;
  double spread = 0; // of the logarithm: the largest distance of a run from the median
  bool operator==(const IterationRatio &) const = default;
};

/// The work of a layer, per sample: what a time is explained by where the layer itself was not
/// measured.
struct LayerWork {
  LayerKind kind = LayerKind::Opaque;
  Flops forwardFlops{}, backwardFlops{};
  Bytes forwardBytes{}, backwardBytes{}; // activations
  Bytes parameterBytes{};                // dense; of the whole layer
  bool operator==(const LayerWork &) const = default;
};
LayerWork workOf(const Layer &layer);

struct MeasuredLayer {
  std::string signature;
  LayerWork work;
  bool operator==(const MeasuredLayer &) const = default;
};

struct Profile {
  std::string model;                                // for entries by layer name; empty: any
  std::string date, device, driver, clocks, engine; // environment, free text
  int threads = 0;
  std::optional<Precision> precision; // that layers computed in; absent: not stated
  MemoryFormat memoryFormat = MemoryFormat::ChannelsFirst; // of images
  std::vector<ProfileEntry> entries;
  std::vector<LinkMeasurement> links;
  std::vector<MemoryMeasurement> memory;
  std::vector<IterationRatio> iterations;
  std::vector<MeasuredLayer> layers; // of the entries by signature, as far as known
  std::string fingerprint;

  bool operator==(const Profile &) const = default;
  /// Times finite and not negative, batches positive, degrees from 1 to mostShards, one of
  /// signature and layer in each entry; work finite and not negative, once for a signature; memory
  /// likewise, once for a device type.
  llvm::Error verify() const;
};

/// Removes the entries of layers with images from a profile that was measured in another layout
/// than `format`; returns how many there were. The kind of a layer is that of `profile`, else of
/// the layer of `graph` with its signature or name.
size_t dropOtherFormat(Profile &profile, MemoryFormat format, const LayerGraph &graph);

} // namespace heterplan
