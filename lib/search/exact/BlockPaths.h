// Shortest paths over a BlockNetwork.
#pragma once

#include "search/exact/BlockNetwork.h"

#include <vector>

namespace heterplan {

/// The prices that stages pay, by lane: once, for each second of τ and for each second of
/// synchronisation, besides those of Σ τ + exposed synchronisation.
struct BlockCharges {
  double second = 1; // of Σ τ + exposed synchronisation
  double spread = 0; // of τ times the part that the stage has of the work; not of BlockPaths
  std::vector<double> stage, busy, summed;
  /// If money is paid: a stage pays `price` of its lane for `least` seconds, or for `passes` times
  /// τ and its synchronisation if that is more. BlockPaths counts `whole` of the one and the rest
  /// of the other, which is no more; `stage`, `busy` and `summed` contain that.
  double least = 0, whole = 0, passes = 0;
  std::vector<double> price = {};
  /// The payment of a stage beyond that.
  double beyond(size_t lane, double time, double sync) const {
    const double longer = passes * time + sync - least;
    return price[lane] * (longer < 0 ? (whole - 1) * longer : whole * longer);
  }
};
/// The figures of a path.
struct BlockPathSums {
  explicit BlockPathSums(size_t resources) : uses(resources), work(resources) {}
  double fill = 0;          // Σ τ + exposed synchronisation, seconds
  std::vector<double> uses; // by resource: Σ of what the stages use
  std::vector<double> work; // by resource: Σ of that times τ
  double spread = 0;        // Σ τ times their parts of the work
  double idle = 0; // dollars per hour · seconds of BlockCharges::least beyond the passes of stages
};

/// Adds a stage on a lane.
void addTo(BlockPathSums &sums, const BlockLane &lane, double time, const Resources &resources);

/// F' = τ + max(F, sync + f), f' = forward + f, as ArcPaths has it, where τ, sync and forward grow
/// with the stage: one in progress has the least F + τ, f + sync + τ and f + forward. They may
/// come from different cuts, which ArcPaths does not allow.
class BlockPaths {
public:
  /// `network` outlives this.
  explicit BlockPaths(const BlockNetwork &network);
  /// The least of all layers.
  double solve(const BlockCharges &charges);
  /// The figures of the path of the last `solve`.
  BlockPathSums path(const Resources &resources, const BlockCharges &charges) const;
  /// The least F and f before each place, by the last `solve`.
  const std::vector<double> &fillBefore() const { return fills; }
  const std::vector<double> &forwardBefore() const { return forwards; }
  /// The least Σ τ from each place on, with what stages pay.
  std::vector<double> fillBehind(const BlockCharges &charges) const;

private:
  /// The least of stages in progress, by lane, and where they began.
  struct Progress {
    std::vector<double> least;
    std::vector<int> from;
    void reset(size_t lanes);
    void begin(size_t lane, double value, int block) {
      from[lane] = value < least[lane] ? block : from[lane];
      least[lane] = std::min(value, least[lane]);
    }
  };
  struct Ending {
    int lane = -1, begin = 0;
    bool behindSync = false;
  };
  void extend(int block, const BlockCharges &charges);
  void finish(int position, const BlockCharges &charges);

  const BlockNetwork &network;
  const size_t lanes;
  Progress fill, bare, exposed, forward; // bare: of stages without parameters yet
  std::vector<double> fills, forwards;   // by place
  std::vector<Ending> byFill, byForward; // by place
};

} // namespace heterplan
