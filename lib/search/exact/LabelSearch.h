// Exact search. A label is a placement of the last layers: stages from some cut position to the
// end. Labels grow stage by stage towards the front, the most promising (by its lower bound) first;
// of two labels at one cut the dominated one is dropped. The first complete label that no open
// label's bound can beat is optimal. Stopped early, the least bound of the open labels is a proven
// bound of the optimum. See docs/rationale/search.md.
#pragma once

#include "search/exact/BlockBounds.h"
#include "search/exact/Bounds.h"
#include "search/exact/CountBounds.h"
#include "search/exact/Labels.h"
#include "search/placement/Incumbent.h"
#include "search/placement/Strategy.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>

namespace heterplan {

/// The data that depend on the number of micro-batches.
struct MicroBatchCase {
  MicroBatchCase(Evaluator &evaluator, int microBatches, const StageLimits &limits,
                 const SearchOptions &options)
      : table(evaluator, microBatches, limits),
        bounds(evaluator, table, /*wholeModelGroups=*/false, options) {}

  StageTable table;
  Bounds bounds;
  std::optional<double> tightFor; // the objective for which the bounds were tightened
};

/// A search over the space of one evaluator. Both arguments outlive it.
class LabelSearch {
public:
  LabelSearch(Evaluator &evaluator, const SearchOptions &options);
  Solution run();
  /// Runs the search from a placement of this space, if any.
  Solution runFrom(const std::optional<Placement> &placement);
  /// Cases begin from the multipliers of `other`, a search over fewer cuts, which outlives this.
  /// Call it first.
  void startFrom(const LabelSearch &other) { coarser = &other; }
  /// Frees what a run has opened, but for what other searches begin from.
  void forgetCases();
  /// Searches with this number of micro-batches alone. Call it first.
  void keepOnly(int microBatches) { only = microBatches; }
  /// Improves a plan, if there is one.
  using Improver = std::function<std::optional<Placement>(const std::optional<Placement> &)>;
  /// The plan is improved once, where the bounds of the cases do not prove it. Call it first.
  void improveBy(Improver improver) { improve = std::move(improver); }
  /// Bounds each number of micro-batches before any stage is evaluated, for plans better than
  /// `placement`, if any. Returns whether one of them may have such a plan. A run that follows
  /// begins from these bounds.
  bool boundCases(const std::optional<Placement> &placement);
  /// Whether there is a value to beat, and the bounds of boundCases() prove that no plan does. Then
  /// a run says so at once.
  bool provesNone();
  /// After boundCases(): prices the stages of the most promising number of micro-batches, if one is
  /// left, so that a run that follows has them.
  void openFirst();
  /// In place of a run: the bounds of the labels that grow into `placement`, which keeps all limits
  /// and has groups of one type, from the empty one on, as far as they are of the space. They hold
  /// where none is above its objective.
  std::vector<double> boundsAlong(const Placement &placement);

private:
  // Growth
  Label rootOf(int choice);
  void addRoot(int choice);
  template <typename Keep> void expand(int index, Keep keep);
  void listStages(int index);
  bool mayStand(const StageSpan &stage, const Label &label) const;
  void complete(const Label &label);
  Placement placementOf(const Label &first) const;

  // LabelSearchGrowth.cpp
  bool takeSlots(int index, int option);
  bool grow(int index, int option, int begin, const StageTimes &stage, Label &grown);
  bool pack(int index, int option, Label &grown);
  Label grownBy(int index, int option, int begin, const StageTimes &stage);
  double trafficBetween(int option, const Label &label) const;
  bool growOtherShares(int index, const Label &grown, Label &other);
  llvm::SmallVector<StageTimes, 2> stagesBefore(const Label &label, int option, int begin);
  PartialPlacement partialOf(const Label &label);
  llvm::ArrayRef<int> slotsAtLeast(const Label &label);
  void bound(Label &label);
  double leastTimeToPay(const Label &label) const;
  Dollars trafficOf(const Label &label) const;

  // Pruning
  static constexpr double rounding = 1e-12;
  double timeLimit() const;
  double toBeat() const; // infinite if nothing is
  /// Objectives from this on are of no interest. A little above the cutoff, so that a bound which
  /// stops there is not below that by rounding.
  double ofInterest() const { return options.gap > 0 ? cutoff() / (1 - rounding) : best.objective; }
  bool promising(const Label &label) const { return label.bound < cutoff(); }

  // Order
  void start(const std::optional<Placement> &placement);
  void keepFew(std::vector<int> &indices) const;
  void beam(int choice);
  void bestFirst(double workShare);
  void prove();
  double leastOpen();
  Solution solve();
  double cutoff() const;
  /// Whether work or time is up.
  bool isOver() const;
  bool isOpen() const { return !open.empty() && open.top().first < cutoff(); }
  int64_t work() const;
  void report() const;

  // LabelSearchCases.cpp
  void addCase(int choice, Evaluator &own);
  Evaluator &evaluatorOf(size_t lane);
  size_t lanes() const;
  void openAtOnce(llvm::ArrayRef<int> choices);
  int nearestKnown(int choice) const;
  void startNear(int choice, int near);
  void tightenCase(int choice);
  void tightenOpenCases();
  void improveOnce();
  bool keepCase(int choice);
  void offerPaths(int choice);
  bool dropCase(int choice);
  void forgetCase(int choice);
  void boundByBlocks();
  void boundTogether(const BlockBounds &bounds, size_t begin, size_t end, BlockStarts &near);
  double openCases();
  void sharpen(double workShare);
  int64_t sharpenCase(int choice);
  std::vector<int> deciding(llvm::ArrayRef<char> isSharp) const;
  void boundAgain();
  const KnownMultipliers &multipliersOf(int choice) const;

  Evaluator &evaluator;
  std::vector<std::unique_ptr<Evaluator>> others; // of cases that are opened at a time
  const SearchOptions &options;
  const SearchSpace &space;
  const int types, last; // last: index of the last position
  /// By micro-batches; null where no placement of interest has so many.
  std::vector<std::unique_ptr<MicroBatchCase>> cases;
  std::vector<KnownMultipliers> known; // of those that were forgotten
  /// By micro-batches, until that case is opened.
  std::vector<BlockBound> blockBounded;
  std::vector<BlockStarts> blockStarts;  // by micro-batches
  std::optional<double> blockBoundedFor; // ofInterest() of these bounds
  /// Bounds with their indices into SearchSpace::microBatches, the least first.
  std::vector<std::pair<double, int>> order;
  const LabelSearch *coarser = nullptr; // over fewer cuts
  std::optional<int> only;              // the only number of micro-batches
  Improver improve;                     // none: plans stay as they are
  PathTable paths;

  Packings packings;
  LabelStore labels;
  using Entry = std::pair<double, int>; // bound, label
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;

  Incumbent best;
  /// By the formula, of placements that are worse than it says.
  double leastMisjudged = std::numeric_limits<double>::infinity();
  /// Least objective that other shares of unequal devices may give.
  double leastOtherShares = std::numeric_limits<double>::infinity();
  int64_t priced = 0, steps = 0; // stages; stages listed
  int64_t sharpened = 0;         // states of stages
  const bool countsTraffic;      // which bounds of what is open do not count
  std::vector<int> scratch;      // slots of the label in hand
  std::vector<int> openSlots;    // likewise, where they are fewer (slotsAtLeast)
  std::vector<int> wholeModelOptions;
  llvm::SmallVector<StageSpan, 0> stages; // that may stand before the label in hand
};

} // namespace heterplan
