// Lower bounds for each number of micro-batches that know gradient synchronisation, transfers and
// the limits on devices, before any stage is evaluated.
#pragma once

#include "search/exact/BlockStages.h"
#include "search/exact/Tuning.h"

#include <memory>
#include <vector>

namespace heterplan {

/// Lagrange multipliers of a BlockNetwork, in what the objective is: seconds of an iteration, or
/// dollars per hour · seconds.
struct BlockMultipliers {
  /// By resource: for all there is of it.
  std::vector<double> uses;
  /// The slowest stage takes at least Σ τ · use of each resource, the slowest block, and Σ τ · part
  /// of the work: what a second of each counts, by resource, then these two. Their sum is what a
  /// second of the iteration counts: 1 if the objective is time.
  std::vector<double> seconds;
  /// The part in which stages pay for the least iteration, and not for their own time.
  double whole = 0;
  std::vector<double> all() const; // in this order
};

/// The multipliers from which ascents begin: over blocks, and over stages. Empty: not known.
struct BlockStart {
  BlockMultipliers blocks, stages;
};
/// The starts of a number of micro-batches: of all iterations, then by range of them.
using BlockStarts = std::vector<BlockStart>;

/// A bound on the placements with one number of micro-batches, and their stages.
struct BlockBound {
  double objective = 0; // at least, as far as they are of interest
  /// Whether a placement of interest may have a stage between two positions on the devices of an
  /// option, `plain`, whether it shares its node with others or not (GroupOption::plain).
  bool mayHave(int begin, int end, int plain) const;

  size_t positions = 0, options = 0;
  std::vector<bool> left = {}; // by begin, end and plain option; empty: any
};

/// The aim of a bound, and what it may take.
struct BlockGoal {
  double value;
  bool listsStages;
  /// A bound over stages that is below this after a few steps is left as it is.
  double worthGoingOn = 0;
};

class BlockBounds {
public:
  /// `evaluator` and `tuning` outlive this.
  BlockBounds(const Evaluator &evaluator, const Tuning &tuning, bool wholeModelGroups);

  /// Bounds the placements with so many micro-batches and an objective below `limit`, from `begin`,
  /// whose multipliers become the best ones. `own`: an evaluator of the same space that no other
  /// thread uses. `listsStages`: a better bound, which takes some times as long.
  BlockBound bound(Evaluator &own, int microBatches, double limit, bool listsStages,
                   BlockStarts &begin) const;

private:
  BlockBounds(const Evaluator &evaluator, const Tuning &tuning, bool wholeModelGroups,
              bool paysMoney);
  double leastIteration(const BlockNetwork &network, BlockPaths &paths) const;
  std::vector<double> rangesOf(double least) const;
  double boundByRanges(BlockNetwork &network, BlockPaths &paths, const BlockGoal &goal,
                       BlockStarts &begin, std::vector<bool> &left) const;
  double boundRange(const BlockNetwork &network, BlockPaths &paths, const BlockGoal &goal,
                    BlockStart &begin, std::vector<bool> &left) const;
  template <typename Paths>
  double ascend(const BlockNetwork &network, Paths &paths, double goal, int steps,
                BlockMultipliers &multipliers) const;
  double boundByStages(const BlockNetwork &network, BlockPaths &paths, const BlockGoal &goal,
                       BlockStart &begin, std::vector<bool> &left) const;
  void start(BlockMultipliers &multipliers) const;
  void startStages(const BlockNetwork &network, BlockStages &stages, BlockStart &begin) const;
  std::vector<double> unitsOf(double scale) const;
  BlockMultipliers inUnits(llvm::ArrayRef<double> values, llvm::ArrayRef<double> units) const;
  BlockCharges chargesOf(const BlockNetwork &network, const BlockMultipliers &multipliers) const;
  double refund(const BlockNetwork &network, const BlockMultipliers &multipliers) const;
  BlockMultipliers slopeAt(const BlockNetwork &network, const BlockPathSums &path) const;
  double longestStage(const BlockNetwork &network, double goal) const;

  const Evaluator &evaluator;
  const Tuning &tuning;
  const NodePlaces places;
  const Resources resources;
  const std::vector<BlockLane> lanes;
  const bool countsMoney;
  const double longest;                            // iteration, seconds
  const std::unique_ptr<const BlockBounds> ofTime; // if money counts and time has a limit
  const double perObjective; // what is bounded, for 1 of Evaluation::objective
};

} // namespace heterplan
