// Every stage that a search can use, priced once: for one number of micro-batches, each pair of cut
// positions and each group.
#pragma once

#include "search/placement/Evaluator.h"

#include <vector>

namespace heterplan {

/// Computing only, one micro-batch, in seconds.
struct StageEntry {
  double forward = 0, backward = 0, sync = 0;
  int64_t share = 0;    // largest; 0 where pins or the batch rule the stage out
  int mostInFlight = 0; // as far as memory goes; 0: never fits
  /// Shares depend on memory and on the place in the pipeline (mixed groups), or the slowest share
  /// depends on the place (times that fall as the batch grows): the figures are lower bounds, of a
  /// last stage with one micro-batch in flight.
  bool estimate = false;
};

class StageTable {
public:
  StageTable(Evaluator &evaluator, int microBatches);

  const int microBatches;
  const int64_t batch; // samples of one micro-batch

  /// The stage between positions `begin` < `end` on option `option`.
  const StageEntry &at(int begin, int end, int option) const {
    return entries[(size_t(end) * (end - 1) / 2 + begin) * options + option];
  }
  /// Lower bounds of receiving activations at position `end` into a stage that begins there, and
  /// gradients into a stage that ends there.
  double leastReceive(int position, int option, int64_t share) const;
  double leastReceiveGradient(int position, int option, int64_t share) const;

private:
  StageEntry price(int begin, int end, const GroupOption &option, const GroupCosts &costs);

  Evaluator &evaluator;
  const size_t options;
  std::vector<StageEntry> entries;
  std::vector<double> leastLatency, leastPerSampleByte; // by option, of a transfer
};

} // namespace heterplan
