// The bound of the plans with one number of micro-batches. It begins with the multipliers of a
// certificate, and branches where they are weak.
#pragma once

#include "ir/Certificate.h"
#include "search/verify/bound/CellTree.h"

#include <memory>
#include <vector>

namespace heterplan {

class CountBound {
public:
  /// `bounds` and `target` outlive this. At least `enough` if there is no need for a better one.
  CountBound(int microBatches, const Certificate &certificate, StageBounds &bounds,
             const BoundTarget &target, double enough);

  /// A lower bound on what each plan takes, in the units of PathBound.
  double bound() const;
  /// Works until the bound is `goal`, or the work `most`. Returns the work.
  size_t improve(double goal, size_t most);
  /// Whether more work may improve the bound towards the last goal.
  bool isOpen() const { return mayImprove; }

private:
  const StageBounds &bounds;
  const BoundTarget &target;
  const StageList list;
  double blocks = 0;
  std::vector<RootCell> cells;
  std::unique_ptr<CellTree> tree;
  double reached = 0; // by the trees
  bool mayImprove = true;
};

} // namespace heterplan
