// Every stage that a search can use, priced once: for one number of micro-batches, each pair of cut
// positions and each group.
#pragma once

#include "search/network/StageArc.h"
#include "search/placement/Evaluator.h"
#include "search/placement/LeastMixedTimes.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace heterplan {

/// Upper limits that a stage must meet to improve the incumbent: seconds of an iteration, and price
/// · iteration in dollars per hour · seconds.
struct StageLimits {
  double iteration = std::numeric_limits<double>::infinity();
  double paid = std::numeric_limits<double>::infinity();
  /// By position: what the layers before it add to an iteration at least, seconds; none: not known.
  std::vector<double> before = {};
  /// Says that the table is no longer of use: it is left as it is then.
  std::function<bool()> isOver = {};

  /// Whether a placement within the limits may have a stage, by begin, end and
  /// GroupOption::plain; none: any.
  std::function<bool(int, int, int)> mayHave = {};

  /// The least that the layers before `begin` and from `end` on add.
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
  const StageTimes &at(int begin, int end, int option) const {
    const Row &row = rowOf(end, option);
    bool isThere = begin >= row.first && begin < row.last && hasNeighbours(begin, end, option);
    return entries[isThere ? numbers[row.indexOf(begin)] : absent];
  }
  /// Exact entries of the stage `depth` stages from the end, itself counted: one for each mode in
  /// which it fits there and that no other one dominates.
  llvm::SmallVector<StageTimes, 2> atDepth(int begin, int end, int option, int depth);
  /// Entries of the stage in its modes, whatever its depth, each with as many micro-batches in
  /// flight as it holds. One estimate where the figures depend on more than the mode.
  llvm::SmallVector<StageTimes, 2> modes(int begin, int end, int option);
  /// A stage with so many stages behind it.
  struct TimesByDepth {
    StagesBehind behind;
    StageTimes times;
  };
  /// The depths at which a stage that ends at `end` holds as many micro-batches as it has to. More
  /// than `deepest` stages behind it count as so many.
  StagesBehind behindWith(int mostInFlight, int end, int deepest) const;
  /// The entry of a stage that may run in several modes, by what memory allows at each depth.
  llvm::SmallVector<TimesByDepth, 2> byDepth(int begin, int end, int option, int deepest) const;
  /// Whether some stage may run in several modes.
  bool hasSeveralModes() const { return severalModes; }
  /// Lower bounds of receiving activations at position `end` into a stage that begins there, and
  /// gradients into a stage that ends there.
  double leastReceive(int position, int option, int64_t share) const;
  double leastReceiveGradient(int position, int option, int64_t share) const;

private:
  /// The stages that end at one position, on one option: those that begin in [first, last), the
  /// last one first.
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
  StageTimes price(int begin, int end, int option, double &least);
  StageTimes entryOf(const StageCost &cost, ExecutionMode mode, int mostInFlight) const;
  StageTimes estimateOf(llvm::ArrayRef<StageTimes> modes) const;
  StageTimes priceBalanced(LayerRange range, const DeviceGroup &group, int deepest);
  llvm::SmallVector<StageTimes, 2> priceModes(LayerRange range, const DeviceGroup &group, int end);
  /// The fewest micro-batches in flight that a stage which ends at `end` can have.
  int fewestInFlight(int end) const { return inFlight(end < last ? 2 : 1); }
  int deepest(int end) const { return inFlight(last + 1 - end); }
  int inFlight(int depth) const { return evaluator.problem.request.inFlight(depth, microBatches); }
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
  std::vector<uint32_t> numbers;              // of entries, by row and begin: most are absent
  std::vector<StageTimes> entries;
  std::vector<llvm::SmallVector<StageTimes, 2>> modesOf; // by StageTimes::modes
  static constexpr uint32_t absent = 0;      // the entry of all stages that no placement has
  std::vector<StageOption> fastest;          // by option: in its fastest mode
  std::vector<LeastTransfer> before, behind; // by option, on these sides
  /// Exact times of estimated stages, by micro-batches in flight.
  llvm::DenseMap<std::pair<size_t, int>, llvm::SmallVector<StageTimes, 2>> exact;
  bool severalModes = false;
};

} // namespace heterplan
