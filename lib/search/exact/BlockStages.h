// The stages of a BlockNetwork that placements of interest may have, and shortest paths over them.
#pragma once

#include "search/exact/BlockPaths.h"

#include <vector>

namespace heterplan {

/// Unlike BlockPaths, a path has one beginning for each stage, so that its synchronisation counts
/// wherever it is not hidden; and what a stage adds need not be a sum over its blocks.
class BlockStages {
public:
  /// Lists the stages that paths below `limit` may have under the charges of the last solve of
  /// `paths`, of at most `longest` seconds. `network` outlives this.
  BlockStages(const BlockNetwork &network, const BlockPaths &paths, const BlockCharges &charges,
              double limit, double longest);

  size_t size() const { return stages.size(); }
  /// The least of all layers.
  double solve(const BlockCharges &charges);
  /// The figures of the path of the last `solve`.
  BlockPathSums path(const Resources &resources, const BlockCharges &charges) const;
  /// Keeps the stages that paths below `limit` may have, by the last `solve`.
  void fix(const BlockCharges &charges, double limit);
  /// By begin, end and GroupOption::plain: whether a stage on the same devices is left.
  std::vector<bool> left(llvm::ArrayRef<GroupOption> options) const;

private:
  struct Stage {
    double time, forward, sync;
    double spread; // τ times its part of the work
    int lane;
    unsigned before, behind; // places
    int begin, end;
  };
  struct Step {
    int byFill = -1, byForward = -1;
    bool behindSync = false;
  };
  bool listStages(int begin, int end, const BlockCharges &charges, double longest);
  void takeFewer(int position);
  static double ownCharge(const Stage &stage, const BlockCharges &charges) {
    const double own = charges.stage[stage.lane] + charges.busy[stage.lane] * stage.time +
                       charges.summed[stage.lane] * stage.sync + charges.spread * stage.spread;
    return charges.least > 0 ? own + charges.beyond(stage.lane, stage.time, stage.sync) : own;
  }

  const BlockNetwork &network;
  std::vector<double> work;  // by position: seconds of the blocks before it, at their best
  BlockPrefixes before;      // by position and lane
  std::vector<Stage> stages; // by end
  std::vector<double> fills, forwards; // by place
  std::vector<double> most;            // by place behind a stage: what a path may take there
  std::vector<Step> steps;             // by place
};

} // namespace heterplan
