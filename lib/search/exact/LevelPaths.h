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
             const Depths &depths, const Tuning &tuning);

  /// Keeps neighbours, or limits of types in more levels, and lists what the solves of `interval`
  /// look at. Returns the work of one; 0 if no more levels gain anything, or too much is left to
  /// look at.
  size_t keepMore(Interval &interval, llvm::ArrayRef<StageArc> choices);
  /// The same with neighbours in place of all levels.
  size_t keepNeighboursAlone(Interval &interval, llvm::ArrayRef<StageArc> choices);
  /// Whether each type that is scarce is kept.
  bool keepsAll(const LagrangianBounds &bounds) const;
  /// Finds the least of each junction and state into `bounds`. Returns the least of all layers.
  double solve(llvm::ArrayRef<StageArc> choices, Pays pays, LagrangianBounds &bounds) const;
  /// The path of the last `solve`, which made `bounds`.
  ArcPath path(llvm::ArrayRef<StageArc> choices, Pays pays, const LagrangianBounds &bounds) const;

  /// The least before a stage on `option` that begins at `position`, itself one of `behind` stages
  /// from there on, whose input takes `receive` seconds at least, in `state`; `chain`: in its node,
  /// of stages from there on.
  LeastMixtures leastBefore(const LagrangianBounds &bounds, int position, int behind, int option,
                            int chain, double receive, size_t state) const;

private:
  /// A ranked stage with the devices that it and those behind it have in its node: where paths are
  /// before it, and how they look from behind.
  struct ListedStage {
    int choice, chain, ending;
    size_t junction, taken; // states
    StagesBehind behind;
  };
  struct ListedTransfer {
    int ending;
    size_t junction;
    double receive, gradient;
  };
  /// Stages of one face: the least seconds that they and what lies on their other side add, and the
  /// transfers on this side that these contain at most.
  struct Side {
    SearchSpace::Face face;
    double time, transfer;

    void add(double ofStage, double contained) {
      time = std::min(time, ofStage);
      transfer = std::max(transfer, contained);
    }
  };
  struct Position {
    std::vector<ListedStage> stages;       // that end there
    std::vector<ListedTransfer> transfers; // to those that may stand behind them, by junction
    std::vector<Side> endings;             // by face
  };
  /// The best stage before some position on the way of `path`.
  struct Traced {
    double time;
    int choice = -1, chain = 0, mixture = 0;
    size_t taken = 0;
  };

  Junctions junctionsOf(const Interval &interval, llvm::ArrayRef<StageArc> choices,
                        bool knowNeighbours) const;
  bool mayKnowNeighbours(const Interval &interval, llvm::ArrayRef<StageArc> choices) const;
  size_t keep(Interval &interval, llvm::ArrayRef<StageArc> choices, bool knowNeighbours);
  void use(LagrangianBounds &bounds, Levels &&levels, Junctions &&junctions,
           llvm::ArrayRef<StageArc> choices);
  std::vector<LimitedType> scarceTypes(const Interval &interval,
                                       llvm::ArrayRef<StageArc> choices) const;
  SearchSpace::Face faceBefore(const Junctions &junctions, int option, int chain) const;
  SearchSpace::Face faceBehind(const Junctions &junctions, int option, int chain) const;
  size_t list(const Interval &interval, llvm::ArrayRef<StageArc> choices,
              const Junctions &junctions);
  std::vector<Side> endingsOf(llvm::ArrayRef<RankedArc> ranked, llvm::ArrayRef<StageArc> choices,
                              const Junctions &junctions) const;
  void listStages(int position, llvm::ArrayRef<RankedArc> ranked, llvm::ArrayRef<StageArc> choices,
                  const Junctions &junctions);
  void listTransfers(int position, double most, const Junctions &junctions,
                     llvm::ArrayRef<Side> beginnings);
  const ListedTransfer *transferBetween(int position, int ending, size_t junction) const;
  std::vector<Side> beginningsOf(const Interval &interval, llvm::ArrayRef<StageArc> choices,
                                 const Junctions &junctions) const;
  void addStage(const ListedStage &stage, const StageArc &choice, double pays,
                const LagrangianBounds &bounds, MixtureTable &reached) const;
  void addStates(const Addition &added, const ListedStage &stage, const LagrangianBounds &bounds,
                 size_t before, size_t own, MixtureTable &reached) const;
  Traced traced(llvm::ArrayRef<StageArc> choices, Pays pays, const LagrangianBounds &bounds,
                int position, int depth, size_t state, int mixture, SearchSpace::Face behind) const;
  TransferTimes boundary(bool knowNeighbours, int position, SearchSpace::Face before,
                         SearchSpace::Face behind);

  const Evaluator &evaluator;
  const SearchSpace &space;
  const Resources &resources;
  PathTable paths;
  const Tuning &tuning;
  const int64_t batch;
  const Depths &depths;
  const int positions;
  std::vector<Position> listed; // of the interval in hand
};

} // namespace heterplan
