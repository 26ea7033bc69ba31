// The figures that bounds of plans are compared with, and the cells that they are about.
#pragma once

#include "search/verify/bound/PathBound.h"

#include <algorithm>
#include <vector>

namespace heterplan {

/// In the units of PathBound.
struct BoundTarget {
  bool paysMoney = false;
  double reached = 0; // by the plan
  BoundLimits limits;

  BoundTarget(const Plan &plan, const StageBounds &bounds);
  /// A bound on the plans of one stage.
  double alone(const StageList &list) const {
    return paysMoney ? list.leastAlonePaid : list.leastAloneIteration;
  }
  /// A bound from blocks of layers alone, of stages with one device type.
  double ofBlocks(const StageList &list) const;
};

/// An iteration fills the pipeline once, and goes m − 1 times through the slowest stage.
BoundCell tightened(BoundCell cell, const StageList &list);
/// Whether the cell has no plan below the limits.
bool isBeyond(const BoundCell &cell, const StageList &list, const BoundTarget &target);
/// Multipliers of resources without a limit count nothing.
void keepLimited(const PathBound &paths, const BoundCell &cell, std::vector<double> &multipliers);

/// The middle of a cell, and how far its ends are apart, relative to the iteration.
struct CellHalves {
  double bySlowest = 0, byTime = 0; // how far
  double slowest = 0, time = 0;     // the middle

  CellHalves(const BoundCell &cell, const StageList &list, const BoundTarget &target);
  double widest() const { return std::max(bySlowest, byTime); }
};

} // namespace heterplan
