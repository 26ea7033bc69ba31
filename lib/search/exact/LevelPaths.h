// Shortest paths that know the neighbours of their stages, so that transfers are as they are, and
// that keep the limits of the scarcest types exactly. The relaxation then mixes only paths that do
// (successive sublimation; Ibaraki, 1987).
#pragma once

#include "search/exact/ArcPaths.h"
#include "search/exact/Tuning.h"
#include "search/network/Resources.h"
#include "search/network/Transfers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace heterplan {

/// Works on one interval at a time, whose stages are ranked. `choices` are all stages, by end;
/// `pays` says what one pays for its own.
class LevelPaths {
public:
  using Pays = llvm::function_ref<double(const StageArc &)>;
  /// All but `batch`, the samples of a full micro-batch, outlive this.
  LevelPaths(const Evaluator &evaluator, const Resources &resources, int64_t batch,
             const Tuning &tuning);

  /// Keeps neighbours, or, where they are kept, the limit of one more type, and lists what the
  /// solves of `interval` look at. Returns the work of one; 0 if no other type is scarce, or too
  /// much is left to look at.
  size_t keepMore(Interval &interval, llvm::ArrayRef<StageArc> choices);
  /// Whether each type that is scarce is kept.
  bool keepsAll(const LagrangianBounds &bounds) const { return scarcestType(bounds) < 0; }
  /// Finds the least of each junction and state into `bounds`. Returns the least of all layers.
  double solve(llvm::ArrayRef<StageArc> choices, Pays pays, LagrangianBounds &bounds) const;
  /// The path of the last `solve`, which made `bounds`.
  ArcPath path(const Interval &interval, llvm::ArrayRef<StageArc> choices, Pays pays,
               const LagrangianBounds &bounds);

  /// The state of what a stage on `option` takes, and of what `used` devices leave.
  size_t statesTaken(const Levels &levels, int option) const;
  size_t stateLeft(const Levels &levels, llvm::ArrayRef<int> used) const;
  /// The least before a stage on `option` that begins at `position`, whose input takes `receive`
  /// seconds at least, in `state`; `chain`: in its node, of stages from there on.
  LeastMixtures leastBefore(const LagrangianBounds &bounds, int position, int option, int chain,
                            double receive, size_t state) const;

private:
  /// A ranked stage with the devices that it and those behind it have in its node: where paths are
  /// before it, and how they look from behind.
  struct ListedStage {
    int choice, ending;
    size_t junction, taken; // states
  };
  struct ListedTransfer {
    int ending;
    size_t junction;
    double receive, gradient;
  };
  struct Position {
    std::vector<ListedStage> stages;       // that end there
    std::vector<ListedTransfer> transfers; // to those that may stand behind them
    int endings = 0;
  };
  /// The best stage before some position on the way of `path`.
  struct Traced {
    double time;
    int choice = -1, chain = 0, mixture = 0;
    size_t taken = 0;
  };

  Junctions junctionsOf(const Interval &interval, llvm::ArrayRef<StageArc> choices) const;
  int scarcestType(const LagrangianBounds &bounds) const;
  size_t list(const Interval &interval, llvm::ArrayRef<StageArc> choices,
              const Junctions &junctions);
  void listStages(int position, llvm::ArrayRef<RankedArc> ranked, llvm::ArrayRef<StageArc> choices,
                  const Junctions &junctions, llvm::ArrayRef<SearchSpace::Face> endings);
  void listTransfers(int position, const Junctions &junctions,
                     llvm::ArrayRef<SearchSpace::Face> endings);
  void addStage(const ListedStage &stage, const StageArc &choice, double pays,
                const LagrangianBounds &bounds, MixtureTable &reached) const;
  Traced traced(const Interval &interval, llvm::ArrayRef<StageArc> choices, Pays pays,
                const LagrangianBounds &bounds, int position, size_t state, int mixture,
                SearchSpace::Face behind);
  TransferTimes boundary(int position, SearchSpace::Face before, SearchSpace::Face behind);

  const Evaluator &evaluator;
  const SearchSpace &space;
  const Resources &resources;
  PathTable paths;
  const Tuning &tuning;
  const int64_t batch;
  const int positions;
  std::vector<Position> listed; // of the interval in hand
};

} // namespace heterplan
