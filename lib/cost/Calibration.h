// Compares measured runs of a plan with its prediction, and derives the profile that would have
// predicted them: layer times scaled by the measured times of their stage, links by those of
// messages.
#pragma once

#include "cost/ProfileDatabase.h"
#include "ir/Timeline.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace heterplan {

/// A median over steps, ranks and micro-batches of measured / predicted; 1 where nothing was
/// predicted or measured.
struct Ratio {
  double value = 1;
  size_t count = 0; // of the ratios; 0: not known
};

struct StageRatio {
  int stage = 0;
  std::string deviceType;
  Ratio forward, backward, update;
};

struct LinkRatio {
  Link link;   // as it was predicted with
  Ratio ratio; // of the times of messages and collectives over it
};

/// How much of the gradient all-reduces does not lengthen the iteration: 1 − exposed / Σ over
/// stages. An all-reduce is hidden behind stages that still compute.
struct Overlap {
  Seconds total{}, exposed{};
  double hidden() const { return total > Seconds(0) ? 1 - exposed / total : 0; }
};

struct Calibration {
  std::vector<StageRatio> stages; // by stage, then by device type
  std::vector<LinkRatio> links;   // by name; those without one come first and cannot be corrected
  Seconds predicted{}, measured{}, corrected{}; // iteration: as planned, median, by the ratios
  Overlap predictedOverlap, measuredOverlap;    // of a step; the measured one of the median step
};

/// Compares `measured` with `program`, which was lowered from a plan with the costs of today.
/// - A stage: durations of its passes and updates on each type of device. A pass is what its layers
///   take, so waiting is not part of it.
/// - A message: from when the receiver is ready and the sender begins, until it has arrived. A
///   message that arrives while the receiver computes costs little, and so the ratio becomes small:
///   the ratio is about exposed time, which the cost model predicts.
/// - A collective: from when its last member is there.
/// Medians of messages are weighted by the predicted time. Fails with ForeignTimeline if a timeline
/// is a prediction, or of another program. `paths` are those of `measured`, for messages.
llvm::Expected<Calibration> calibrate(const Program &program, const Cluster &cluster,
                                      llvm::ArrayRef<Timeline> measured,
                                      llvm::ArrayRef<std::string> paths);

/// The profile: an entry for each layer of `plan` on each type of device of its stage, at every
/// batch that `database` has and those of the plan, with the times that `costs` gives times the
/// ratios of the stage; each says what its time was before, and is marked as calibrated. And the
/// named links, latency times and bandwidth over their ratio. Ratios of stages are shared out over
/// their layers evenly: no run of whole stages tells them apart. Fails as `costs` does.
llvm::Expected<Profile> correctedProfile(const Calibration &calibration, const Plan &plan,
                                         const LayerGraph &graph, const Cluster &cluster,
                                         const CostModel &costs, const ProfileDatabase &database);

} // namespace heterplan
