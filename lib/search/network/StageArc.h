// The arcs of the stage network: its nodes are the positions where the layers may be cut, and a
// path from the first position to the last one is a placement.
#pragma once

#include "cost/StageCost.h"

#include <cstdint>
#include <optional>

namespace heterplan {

/// The layers between two positions of the search space on one of its options.
struct StageSpan {
  int begin = 0, end = 0; // positions
  int option = 0;         // index into SearchSpace::options
};

/// The times of a candidate stage for one full micro-batch without its neighbours, in seconds. No
/// other struct in lib/search holds them.
struct StageTimes {
  double forward = 0, backward = 0, sync = 0;
  double leastForward = 0; // whatever its place in the pipeline
  int64_t share = 0;       // samples, the largest; 0 where pins or the batch rule the stage out
  int mostInFlight = 0;    // micro-batches, as far as memory goes; 0: never fits
  /// The figures stand for several modes, or depend on the place in the pipeline: shares on memory
  /// (mixed groups), or the slowest share on what follows (times that fall as the batch grows).
  /// Then forward + backward is a lower bound, and with sync it is one of all three.
  bool estimate = false;
  ExecutionMode mode = {}; // of exact figures
  int modes = -1;          // where StageTable has those that an estimate stands for; −1: nowhere
};

/// How many stages lie behind a stage, between it and the last layer.
struct StagesBehind {
  static constexpr int any = 1 << 20;
  int fewest = 0, most = any;

  bool has(int behind) const { return fewest <= behind && behind <= most; }
};

/// A candidate stage with the least that its transfers take, in seconds of one micro-batch.
struct StageArc : StageSpan, StageTimes {
  double receive = 0, gradient = 0;
  StagesBehind behind = {}; // where these are its times

  /// Rounding must not make a bound exceed the true value.
  static constexpr double safety = 1 - 1e-12;
  /// Both passes, and the synchronisation, transfers included: not above what the stage takes.
  double time() const { return (forward + backward + receive + gradient) * safety; }
  /// Both passes without the transfers.
  double computing() const { return (forward + backward) * safety; }
  double forwardTime() const { return (leastForward + receive) * safety; }
  double syncTime() const { return sync * safety; }
  /// Without the transfers.
  double ownTime() const { return time() - receive - gradient; }
  double ownForwardTime() const { return forwardTime() - receive; }
  std::optional<ExecutionMode> decidedMode() const {
    return estimate ? std::nullopt : std::optional(mode);
  }
};

} // namespace heterplan
