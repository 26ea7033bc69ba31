// A user's request for a plan.
#pragma once

#include "ir/Plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace heterplan {

/// How many devices a layer of a burst plan may have, of the divisors of the batch.
enum class Widths { Powers, Any };

/// The constraints of the user. 0 or empty: no such constraint.
struct Request : Requirements, ModeRequest {
  Samples globalBatch{256};
  Objective objective = Objective::Throughput;
  ScheduleChoice schedule = ScheduleChoice::Auto;
  int microBatches = 0;         // 0: searched
  bool comparesDegrees = false; // of tensor parallelism; a problem is about one of them
  Optimizer optimizer = Optimizer::Sgd;
  OptimizerKernels optimizerKernels = OptimizerKernels::Fused;
  Precision precision = Precision::Fp32;
  std::optional<MemoryFormat> memoryFormat; // none: the faster one, as readers of requests decide
  BatchNorm batchNorm = BatchNorm::Synchronised;
  IterationModel iterationModel = IterationModel::Synchronous;
  std::optional<Training> training;
  Widths widths = Widths::Powers;
  bool ignoreMemory = false; // used to explain infeasibility

  /// Longest iteration that reaches minThroughput, exactly, and is within maxIteration; infinite
  /// without these constraints.
  Seconds longestIteration() const {
    Seconds longest(std::numeric_limits<double>::infinity());
    if (minThroughput > SamplesPerSecond(0))
      longest = Seconds(double(globalBatch.value()) / minThroughput.value());
    return maxIteration > Seconds(0) ? std::min(longest, maxIteration) : longest;
  }
  /// Highest cost of an iteration that is within maxCostPerIteration and maxCostPerMillionSamples;
  /// infinite without these constraints.
  Dollars highestCost() const {
    Dollars highest(std::numeric_limits<double>::infinity());
    if (maxCostPerMillionSamples > Dollars(0))
      highest = maxCostPerMillionSamples * (double(globalBatch.value()) / 1e6);
    return maxCostPerIteration > Dollars(0) ? std::min(highest, maxCostPerIteration) : highest;
  }
};

/// Makes `plan` an answer to `request`: it states the constraints, modes, schedule and number of
/// micro-batches that the user asked for.
inline void stateRequest(const Request &request, Plan &plan) {
  static_cast<Requirements &>(plan) = request;
  static_cast<ModeRequest &>(plan) = request;
  plan.requestedSchedule = request.schedule;
  plan.requestedMicroBatches = request.microBatches;
  plan.comparesDegrees = request.comparesDegrees;
}

} // namespace heterplan
