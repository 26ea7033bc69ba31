// The least that stages take in all, by what they take of the devices: shortest paths over the cuts
// in which the limits on devices hold exactly.
#pragma once

#include "search/exact/DeviceStates.h"
#include "search/exact/Labels.h"
#include "search/exact/StatesOfInterest.h"
#include "search/placement/StageTable.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <optional>
#include <vector>

namespace heterplan {

/// A stage between two cuts, by index into SearchSpace::positions; seconds of one micro-batch, with
/// the least that its transfers take.
struct StateStage {
  int begin, end, option;
  double time, forward, sync;
  double receive, gradient; // those transfers
  /// Micro-batches in flight that it can keep: as many as stages follow, and one.
  int mostInFlight = std::numeric_limits<int>::max();
  std::optional<ExecutionMode> mode = std::nullopt; // none: the figures are an estimate
};

/// What crosses a cut takes, seconds: the input of the stage behind it, and the gradient for the
/// one before it.
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
  /// Of the types of an option and of how it looks to the stage before it, or behind it.
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

/// Bounds by stages whose transfers take the least that they do between groups of such types.
class StatePaths {
public:
  /// What is solved, kept from one object to the next: to get so much memory takes longer than to
  /// fill it.
  struct Memory {
    /// By position, kind behind it and state of interest: of the layers before, with the transfers
    /// there.
    std::vector<float> fills, forwards;
    /// By position, kind before it and state of interest: without those transfers.
    std::vector<float> endingFills, endingForwards;
    /// What the layers behind may take: likewise by the kind before a position, and by the kind
    /// behind it, with the transfers there.
    std::vector<float> left, leftBehind;
    StatesOfInterest::Memory segments; // of the stage in hand
  };
  /// All outlive this; `memory` is of one object at a time. Other states than those of `interest`
  /// are not looked at, as if no path had them.
  StatePaths(const StatesOfInterest &interest, const LeastTransfers &transfers, int positions,
             Memory &memory);

  /// Solves for stages that take less than `below` seconds; `stages` by end.
  void solve(llvm::ArrayRef<StateStage> stages, double below);
  /// Least Σ τ + exposed synchronisation of all layers in `state`; infinite where there is none.
  double fill(size_t state) const {
    const size_t of = interest.placeOf(positions - 1, state);
    return of == StatesOfInterest::none
               ? std::numeric_limits<double>::infinity()
               : double(memory.fills[behind.at(positions - 1, 0) + of]) * (1 - rounding());
  }
  /// Those of `stages` that a path has which takes less than `below` seconds in each stage and, in
  /// some state, at most `limits` of it in all. After `solve` for at least these.
  std::vector<StateStage> within(llvm::ArrayRef<StateStage> stages, double below,
                                 const std::vector<double> &limits);
  /// The states that such paths have. After `within`.
  StatesOfInterest statesWithin() const;
  /// States of stages that were looked at.
  int64_t work() const { return looked; }

private:
  /// Of sums of so many figures, as a share.
  double rounding() const { return 4 * double(positions) * std::numeric_limits<float>::epsilon(); }
  /// Where the states of interest lie in memory, by position and kind; only of kinds that stages
  /// have there.
  struct Places {
    int kinds = 0;
    std::vector<size_t> first; // `none`: no stage has the kind
    size_t size = 0;

    void clear(int positions, int kindsOfPosition);
    void add(int position, int kind) { first[index(position, kind)] = 0; }
    void number(const StatesOfInterest &interest);
    bool has(int position, int kind) const {
      return first[index(position, kind)] != StatesOfInterest::none;
    }
    size_t at(int position, int kind) const { return first[index(position, kind)]; }
    size_t index(int position, int kind) const { return size_t(position) * kinds + kind; }
  };
  void listPlaces(llvm::ArrayRef<StateStage> stages);
  template <typename Visit> void overTransfers(int position, Visit visit);
  void addStage(const StateStage &stage);
  void addTransfers(int position);
  bool takeStage(const StateStage &stage);
  void takeTransfers(int position);
  void addWithin(int position, std::vector<char> &found) const;

  const StatesOfInterest &interest;
  const LeastTransfers &transfers;
  const int positions, kinds;
  Places behind, ending; // by the kind of the stage behind a position, or of the one before it
  Memory &memory;
  int64_t looked = 0;
};

/// Likewise, with transfers as they are between the groups of neighbours: they count in the slowest
/// stage, too.
class NeighbourPaths {
public:
  /// As that of StatePaths.
  struct Memory {
    /// By position, option behind it, most that it receives and state of interest: the least of the
    /// layers before, with the transfers there.
    std::vector<double> fills, forwards;
    /// Of the position in hand, likewise by option that ends there and most gradient that it may
    /// receive, without those transfers.
    std::vector<double> endingFills, endingForwards;
    StatesOfInterest::Memory segments; // of the stage in hand
  };
  /// All outlive this. `interest`: other states are not looked at, as if no path had them;
  /// `stages`: by end; `batch`: samples of a full micro-batch.
  NeighbourPaths(const Evaluator &evaluator, const StatesOfInterest &interest, PathTable &paths,
                 int64_t batch, llvm::ArrayRef<StateStage> stages, Memory &memory);

  /// States of stages and of pairs of neighbours, which a solve looks at.
  static size_t additions(const SearchSpace &space, const StatesOfInterest &interest,
                          llvm::ArrayRef<StateStage> stages);
  /// Solves for stages that take less than `below` seconds, transfers included.
  void solve(double below);
  double fill(size_t state) const;
  /// A path with the least fill of `state`: indices into the stages, in order.
  std::vector<int> path(size_t state) const;
  int64_t work() const { return looked; }

private:
  /// What crosses a position between two options.
  struct Boundary {
    double receive = 0, gradient = 0;
    int receiveClass = 0, gradientClass = 0; // of the stage behind it, and of the one before it
  };
  /// A stage with what it and those behind it have in one node (SearchSpace::Face).
  struct Chained {
    StateStage stage;
    SearchSpace::Face before, behind;
    int index; // into the stages
  };
  /// Stages that begin at a position, or that end there, and look the same from there, with what
  /// they may receive.
  struct Side {
    SearchSpace::Face face;
    std::vector<double> times; // ascending, each once
    size_t first = 0;          // state of the first of them, in memory
  };
  struct Position {
    std::vector<Side> ending, behind; // by face
    std::vector<Boundary> boundaries; // by ending, then behind
    size_t firstStage = 0;            // of `chained`, that ends here
    size_t endingStates = 0;          // of all times

    const Boundary &boundary(size_t before, size_t after) const {
      return boundaries[before * behind.size() + after];
    }
  };
  void listChains(llvm::ArrayRef<StateStage> stages);
  void listPositions();
  void setBoundaries(int position);
  Boundary boundaryOf(int position, SearchSpace::Face before, SearchSpace::Face behind) const;
  static size_t indexOf(const std::vector<Side> &sides, SearchSpace::Face face);
  void addStages(int end);
  void addStage(const Chained &of);
  void addTransfers(int end);
  double before(const std::vector<double> &least, const StateStage &stage, size_t first,
                size_t state) const;
  double coreOf(const StateStage &stage) const {
    return stage.time - stage.receive - stage.gradient;
  }
  /// Of `side`, where a stage begins: how many of its times leave the stage below the limit.
  size_t allowed(const StateStage &stage, const Side &side, double gradient) const;
  const Side &sideOf(const Chained &of) const;

  const Evaluator &evaluator;
  const StatesOfInterest &interest;
  PathTable &paths;
  const int64_t batch;
  std::vector<Chained> chained; // by end
  double below = 0;
  std::vector<Position> positions;
  size_t statesBehind = 0; // of all positions
  Memory &memory;
  int64_t looked = 0;
};

} // namespace heterplan
