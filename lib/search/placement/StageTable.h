// Every stage that a search can use, priced once: for one number of micro-batches, each pair of cut
// positions and each group.
#pragma once

#include "search/placement/Evaluator.h"
#include "search/placement/LeastMixedTimes.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace heterplan {

/// Without the neighbours, one full micro-batch, in seconds.
struct StageEntry {
  double forward = 0, backward = 0, sync = 0;
  double leastForward = 0; // whatever its place in the pipeline
  int64_t share = 0;       // largest; 0 where pins or the batch rule the stage out
  int mostInFlight = 0;    // as far as memory goes; 0: never fits
  /// The figures depend on the place in the pipeline: shares on memory (mixed groups), the slowest
  /// share on what follows (times that fall as the batch grows), or the way in which the stage fits
  /// (recomputation, sharded state). Then forward + backward is a lower bound, and with sync it is
  /// one of all three.
  bool estimate = false;
};

/// What placements of interest take at most: seconds of an iteration, and price · iteration in
/// dollars per hour · seconds.
struct StageLimits {
  double iteration = std::numeric_limits<double>::infinity();
  double paid = std::numeric_limits<double>::infinity();
  /// By position: what the layers before it add to an iteration at least, seconds; none: not known.
  std::vector<double> before = {};
  /// Says that the table is no longer of use: it is left as it is then.
  std::function<bool()> isOver = {};

  /// What layers before `begin` and from `end` on add.
  double besides(int begin, int end) const {
    return before.empty() ? 0 : before[begin] + before.back() - before[end];
  }
};

class StageTable {
public:
  /// Stages that no placement within `limits` can have are left out: they never fit.
  StageTable(Evaluator &evaluator, int microBatches, const StageLimits &limits = {});

  const int microBatches;
  const int64_t batch; // samples of a full micro-batch

  /// Whether stages may need all devices of `option` for micro-batches of this size; no other
  /// option is priced.
  bool has(int option) const { return useful[option]; }
  /// The stage between positions `begin` < `end` on option `option`. None shares its node with a
  /// neighbour that it does not have.
  const StageEntry &at(int begin, int end, int option) const {
    const Row &row = rowOf(end, option);
    bool isThere = begin >= row.first && begin < row.last && hasNeighbours(begin, end, option);
    return isThere ? entries[row.indexOf(begin)] : absent;
  }
  /// The same exactly, `depth` stages from the end, itself counted; mostInFlight 0: it does not
  /// fit.
  StageEntry atDepth(int begin, int end, int option, int depth);
  /// All that the stage may be at some depth: the ways in which it may run, each with as many
  /// micro-batches in flight as it holds; or the entry itself, where it is exact, or no way is.
  llvm::SmallVector<StageEntry, 6> ways(int begin, int end, int option);
  /// Whether stages may run in another way further from the end, where memory forces it.
  bool depthMatters() const { return waysDiffer; }
  /// By how many seconds an iteration may take longer when the stages before `position` stand
  /// nearer to the end, where they may run in ways that synchronise longer than those further from
  /// it.
  double lossNearerToEnd(int position) const { return losses[position]; }
  /// Lower bounds of receiving activations at position `end` into a stage that begins there, and
  /// gradients into a stage that ends there.
  double leastReceive(int position, int option, int64_t share) const;
  double leastReceiveGradient(int position, int option, int64_t share) const;

private:
  /// The entries of the stages that end at one position, on one option: those that begin in
  /// [first, last), the last one first.
  struct Row {
    size_t offset;
    int first, last;
    size_t indexOf(int begin) const { return offset + (last - 1 - begin); }
  };
  const Row &rowOf(int end, int option) const {
    return rows[size_t(end) * options + plain[option]];
  }
  bool hasNeighbours(int begin, int end, int option) const {
    return (begin > 0 || !sharesBefore[option]) && (end < last || !sharesNext[option]);
  }
  void fillRow(int end, int option, const StageLimits &limits, const LeastMixedTimes &mixed);
  StageEntry price(int begin, int end, int option, double &least);
  /// What a stage takes in one way, and how many micro-batches it can keep so.
  struct WayCost {
    int mostInFlight;
    double forward, backward, sync;
    bool isFirst = false; // of all ways
    double time() const { return forward + backward; }
  };
  void setEstimate(llvm::ArrayRef<WayCost> ways, StageEntry &entry) const;
  double lossBetween(const WayCost &nearer, const WayCost &further) const;
  void noteLoss(int end, double loss);
  StageEntry priceBalanced(LayerRange range, const DeviceGroup &group, int end, int deepest);
  StageEntry priceWays(LayerRange range, const DeviceGroup &group, int end);
  llvm::SmallVector<WayCost, 6> waysThatFit(LayerRange range, const DeviceGroup &group, int fewest);
  /// The fewest micro-batches in flight that a stage which ends at `end` can have.
  int fewestInFlight(int end) const { return std::min(microBatches, end < last ? 2 : 1); }
  int deepest(int end) const { return std::min(microBatches, last + 1 - end); }
  llvm::SmallVector<WayCost, 6> waysTaken(llvm::ArrayRef<WayCost> ways, int fewest,
                                          int deepest) const;
  bool fitsDeeper(LayerRange range, const StageEvaluation &run, int inFlight);

  /// Least time of a transfer: its start, and of each byte of a sample.
  struct LeastTransfer {
    double latency, perSampleByte;
  };
  LeastTransfer leastTransfer(const DeviceGroup &group, bool inNode) const;

  Evaluator &evaluator;
  const size_t options;
  const int last;                             // index of the last position
  std::vector<bool> useful;                   // by option
  std::vector<int> plain;                     // by option: that with its rows
  std::vector<bool> sharesBefore, sharesNext; // by option
  std::vector<Row> rows;                      // by end and option
  std::vector<StageEntry> entries;
  const StageEntry absent;
  std::vector<StageOption> plainest;         // by option: the first way that it may run in
  std::vector<LeastTransfer> before, behind; // by option, on these sides
  llvm::DenseMap<std::pair<size_t, int>, StageEntry> exact; // estimates, by micro-batches in flight
  bool waysDiffer = false;
  std::vector<double> losses; // by position
};

} // namespace heterplan
