// Times of transfers over the cuts between two groups.
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

} // namespace heterplan
