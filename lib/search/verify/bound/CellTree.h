// The cells of a number of micro-batches, which are halved where their bounds are weak.
#pragma once

#include "search/verify/bound/BoundTarget.h"
#include "search/verify/bound/NeighbourBound.h"

#include <memory>
#include <vector>

namespace heterplan {

/// A cell with multipliers that make the best bound so far.
struct RootCell {
  BoundCell cell;
  double bound = 0;
  std::vector<double> multipliers;
};

/// Improves the least bound of some cells, again and again: it tightens that bound, or halves the
/// cell by the slowest stage or by the iteration.
class CellTree {
public:
  /// All outlive this. Improves the multipliers of `roots`. `goal`: a bound that suffices.
  CellTree(const StageBounds &bounds, const StageList &list, const BoundTarget &target,
           std::vector<RootCell> &roots, double goal);

  double ofGoal() const { return goal; }
  /// The least bound of all cells, or the goal if that is less.
  double bound() const;
  /// Works until the bound is the goal, or cannot be improved, or the work `most`. Returns the
  /// work.
  size_t improve(size_t most);
  /// Whether more work may improve the bound.
  bool isOpen() const { return !open.empty() && open.front().bound < std::min(goal, stuck); }

private:
  /// A part of a root, or of a cell that was halved.
  struct Open {
    double bound = 0;
    BoundCell cell;
    std::shared_ptr<const NeighbourBound> whole; // null: a root
    size_t root = 0;
    size_t order = 0; // of equal bounds the first one comes first
  };
  static bool isBehind(const Open &a, const Open &b);
  void push(Open &&cell);
  void treat(Open cell, size_t most, size_t &work);
  void halve(const Open &cell, const CellHalves &halves,
             const std::shared_ptr<const NeighbourBound> &paths);
  double byStates(const NeighbourBound &paths, double least, bool isNarrow, size_t most,
                  size_t &work) const;

  const StageBounds &bounds;
  const StageList &list;
  const BoundTarget &target;
  std::vector<RootCell> &roots;
  const double goal;
  std::vector<Open> open; // a heap
  double stuck;           // the least bound of cells that are too narrow to be halved
  size_t pushed = 0;
};

} // namespace heterplan
