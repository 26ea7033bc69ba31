// Times of transfers over the cuts: between two groups, and the least between groups of some types.
#pragma once

#include "search/placement/StageTable.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace heterplan {

/// The paths between groups of the space, each made once.
class PathTable {
public:
  explicit PathTable(const Evaluator &evaluator);
  /// From option `before` to option `behind` of the next stage; gradients go the other way.
  const TransferPath &at(int before, int behind);

private:
  const Evaluator &evaluator;
  std::vector<int> ends; // by option: alike where paths from and to them are
  llvm::DenseMap<std::pair<int, int>, TransferPath> paths; // by both ends
};

/// Seconds that the transfers over a cut take: the input of the stage behind it, and the gradient
/// for the one before it.
struct TransferTimes {
  double receive = 0, gradient = 0;
};
/// Between stages on options `before` and `behind` at a position of the space, for micro-batches of
/// `batch` samples; `behind` may follow. Least where what a boundary takes counts once.
TransferTimes transferTimes(const Evaluator &evaluator, PathTable &paths, int64_t batch,
                            int position, int before, int behind);

/// The least that crosses each cut takes between groups of some types of devices, for one size of
/// micro-batches.
class LeastTransfers {
public:
  struct Boundary {
    double receive = 0, gradient = 0;
  };
  /// Between all options that `table` has and that may have neighbours.
  LeastTransfers(const Evaluator &evaluator, PathTable &paths, const StageTable &table);

  int kinds() const { return count; }
  /// The kind of an option: its types, and how it looks to the stage before it, or behind it.
  int kindFromBefore(int option) const { return fromBefore[option]; }
  int kindFromBehind(int option) const { return fromBehind[option]; }
  const Boundary &at(int position, int before, int behind) const {
    return boundaries[(size_t(position) * count + before) * count + behind];
  }

private:
  void setBoundaries(const Evaluator &evaluator, PathTable &paths, int64_t batch, int position,
                     llvm::ArrayRef<int> options);

  int count = 0;
  std::vector<int> fromBefore, fromBehind; // by option
  std::vector<Boundary> boundaries;        // by position, kind before it and kind behind it
};

} // namespace heterplan
