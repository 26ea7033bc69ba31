// What a user asks of a plan.
#pragma once

#include "ir/Plan.h"

#include <limits>
#include <optional>
#include <vector>

namespace heterplan {

enum class ScheduleChoice { Auto, DataParallel, Pipeline, Burst };
/// How many devices a layer of a burst plan may have, of the divisors of the batch.
enum class Widths { Powers, Any };

/// The constraints of the user. 0 or empty: no such constraint.
struct Request : Requirements {
  Samples globalBatch{256};
  Objective objective = Objective::Throughput;
  ScheduleChoice schedule = ScheduleChoice::Auto;
  int microBatches = 0; // 0: searched
  Optimizer optimizer = Optimizer::Sgd;
  Precision precision = Precision::Fp32;
  IterationModel iterationModel = IterationModel::Synchronous;
  RecomputePolicy recompute = RecomputePolicy::Auto;
  std::optional<StateSharding> shardState; // none: what each stage needs to fit
  std::optional<Training> training;
  Widths widths = Widths::Powers;
  bool ignoreMemory = false; // used to explain infeasibility

  /// Longest iteration that reaches minThroughput, exactly; infinite without that constraint.
  Seconds longestIteration() const {
    if (minThroughput == SamplesPerSecond(0))
      return Seconds(std::numeric_limits<double>::infinity());
    return Seconds(double(globalBatch.value()) / minThroughput.value());
  }
};

} // namespace heterplan
