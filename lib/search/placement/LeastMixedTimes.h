// How long groups of several types compute at least, whatever the shares of their devices.
#pragma once

#include "search/placement/StageEvaluator.h"

#include <vector>

namespace heterplan {

/// For one number of micro-batches. Each device works on a sample at least as long as on the
/// cheapest one of any number that it may have at a time.
class LeastMixedTimes {
public:
  /// Prices nothing where no group of `space` has several types.
  LeastMixedTimes(StageEvaluator &stages, const SearchSpace &space, int microBatches);

  /// Seconds of `group` for a full micro-batch of the layers between two positions, passes both
  /// ways; 0 where nothing is known: groups of one type, micro-batches of too many samples, times
  /// that a type lacks.
  double seconds(const DeviceGroup &group, int begin, int end) const;

private:
  const int64_t batch; // samples of a full micro-batch
  /// Seconds that the layers before each position take for a sample, by type; empty: not known.
  std::vector<std::vector<double>> before;
};

} // namespace heterplan
