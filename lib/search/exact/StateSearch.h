// Proof by device states: where there are few of them, the placements with some number of
// micro-batches are looked through by their slowest stage. The least that stages take which are all
// faster than some limit is found at once, for each state of the devices; what is faster still
// needs a shorter limit.
#pragma once

#include "search/exact/Bounds.h"
#include "search/exact/NeighbourPaths.h"
#include "search/exact/StatePaths.h"
#include "search/placement/SearchBudget.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace heterplan {

/// The best plan that a search knows.
struct Incumbent {
  std::optional<Placement> placement;
  double objective = std::numeric_limits<double>::infinity();
  double time = std::numeric_limits<double>::infinity(); // seconds of an iteration

  /// Takes `other`, which evaluates so, where it is better.
  void take(Placement other, const Evaluation &evaluation);
  /// Offers a placement; returns its figures if it is a plan, that is, if devices, memory and pins
  /// allow it.
  std::optional<Evaluation> offer(Evaluator &evaluator, Placement other);
};

class StateSearch {
public:
  /// Whether iterations take what the formula says, pipelines may have any number of stages, and
  /// there are at most so many states of the devices, or they may be rounded.
  static bool applies(const Evaluator &evaluator, size_t mostStates);
  /// Whether it applies and there are more, so that something is left in most cases.
  static bool rounds(const Evaluator &evaluator, size_t mostStates);
  /// States of one solve that knows neighbours. With more, slowest stages are divided into bands.
  struct SolveSizes {
    size_t few = 8'000'000; // solved until nothing is left
    size_t most = 80'000'000;
    size_t mostOfNarrow = 100'000'000; // in a band that is not worth dividing
  };
  /// All but `budget` outlive this. `mostStates`: as above; `statesPerWork`: how many states count
  /// as one of the work.
  StateSearch(Evaluator &evaluator, PathTable &paths, Incumbent &best, const SearchBudget &budget,
              size_t mostStates, int64_t statesPerWork, SolveSizes sizes);

  /// Looks for better plans with so many micro-batches as `table` has. Returns the least objective
  /// that others may have; infinite: none is better than the best one.
  double settle(StageTable &table, const Lagrangian::Range &range);
  /// Whether states, where they are rounded, tell apart most of what these stages take.
  bool tellsApart(llvm::ArrayRef<StageArc> stages) const;
  /// States of stages that were looked at.
  int64_t work() const { return looked; }
  /// Least objective by the formula of the placements found that take longer, as they wait.
  double leastMisjudged() const { return misjudged; }
  bool isOver() const { return budget.interrupted() || looked / statesPerWork > budget.left(); }
  /// The most stages of a range that is examined as one.
  size_t mostStages() const;

private:
  /// Placements whose slowest stage takes at least `low` and less than `below`.
  struct Band {
    double low, below;
  };
  void settle(llvm::ArrayRef<StageArc> stages, const StatesOfInterest &known, Band band);
  void settleWithin(llvm::ArrayRef<StageArc> stages, const StatesOfInterest &interest, Band band,
                    llvm::function_ref<double(size_t)> fill);
  double settleExactly(llvm::ArrayRef<StageArc> stages, const StatesOfInterest &interest, Band band,
                       int solves);
  std::optional<size_t> decidingState(const NeighbourPaths &neighbours, llvm::ArrayRef<char> isDone,
                                      double next) const;
  double offer(const NeighbourPaths &neighbours, llvm::ArrayRef<StageArc> stages, size_t state,
               Band band);
  double shorten(const NeighbourPaths &neighbours, llvm::ArrayRef<StageArc> stages, Band band);
  void leave(llvm::function_ref<double(size_t)> fill, double low);
  std::vector<StageArc> modesOf(llvm::ArrayRef<StageArc> stages);
  std::vector<StageArc> thatMayStand(llvm::ArrayRef<StageArc> stages, double below) const;
  bool useStatesOf(llvm::ArrayRef<StageArc> stages);
  /// Whether something is left that nothing but the bound of the range tells of.
  bool tellsNoMore() const { return isRounded && leftOver <= least; }
  const LeastTransfers &transfersOf();
  double money() const;
  double limitOf(size_t state) const;
  double objectiveOf(size_t state, double seconds) const;
  double longest() const;
  double nextBelow(llvm::function_ref<double(size_t)> fill) const;

  Evaluator &evaluator;
  PathTable &paths;
  Incumbent &best;
  const SearchBudget budget;
  const int64_t statesPerWork;
  const SolveSizes sizes;
  const bool isRounded;    // states tell apart some amounts only
  const size_t mostOfThem; // states of the devices
  int64_t looked = 0;
  double misjudged = std::numeric_limits<double>::infinity();
  std::map<int, std::unique_ptr<LeastTransfers>> transfers; // by number of micro-batches
  // Of the number in hand:
  StageTable *table = nullptr;
  int microBatches = 1;
  int64_t batch = 0;
  double least = 0, most = 0; // seconds of an iteration
  double leftOver = 0;
  int misses = 0;
  std::shared_ptr<const DeviceStates> states;
  std::map<int, size_t> options; // of these states
  std::set<int> typesOfStates;
  StatePaths::Memory bounding;
  NeighbourPaths::Memory exact;
};

} // namespace heterplan
