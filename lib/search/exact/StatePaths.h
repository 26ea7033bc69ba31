// The least that stages take in all, by what they take of the devices: shortest paths over the cuts
// in which the limits on devices hold exactly.
#pragma once

#include "search/exact/DeviceStates.h"
#include "search/exact/Labels.h"
#include "search/placement/StageTable.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <vector>

namespace heterplan {

/// A stage between two cuts, by index into SearchSpace::positions; seconds of one micro-batch, with
/// the least that its transfers take.
struct StateStage {
  int begin, end, option;
  double time, forward, sync;
  double receive, gradient; // those transfers
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
    /// By position, kind behind it and state: of the layers before, with the transfers there.
    std::vector<float> fills, forwards;
    /// By position, kind before it and state: without those transfers; of the position in hand.
    std::vector<float> endingFills, endingForwards;
    /// What the layers behind may take: by position, kind before it and state, and of the position
    /// in hand by the kind behind it, with the transfers there.
    std::vector<float> left, leftBehind;
  };
  /// All outlive this; `memory` is of one object at a time.
  StatePaths(const DeviceStates &states, const LeastTransfers &transfers, int positions,
             Memory &memory)
      : states(states), transfers(transfers), positions(positions), kinds(transfers.kinds()),
        memory(memory) {}

  /// Solves for stages that take less than `below` seconds; `stages` by end.
  void solve(llvm::ArrayRef<StateStage> stages, double below);
  /// Least Σ τ + exposed synchronisation of all layers in `state`; infinite where there is none.
  double fill(size_t state) const {
    return double(memory.fills[place(positions - 1, 0) + state]) * (1 - rounding());
  }
  /// Those of `stages` that a path has which takes less than `below` seconds in each stage and, in
  /// some state, at most `limits` of it in all. After `solve` for at least these.
  std::vector<StateStage> within(llvm::ArrayRef<StateStage> stages, double below,
                                 const std::vector<double> &limits);
  /// States of stages that were looked at.
  int64_t work() const { return looked; }

private:
  /// Of sums of so many figures, as a share.
  double rounding() const { return 4 * double(positions) * std::numeric_limits<float>::epsilon(); }
  size_t place(int position, int kind) const {
    return (size_t(position) * kinds + kind) * states.size();
  }
  void addTransfers(int position);
  void takeTransfers(int position);

  const DeviceStates &states;
  const LeastTransfers &transfers;
  const int positions, kinds;
  Memory &memory;
  int64_t looked = 0;
};

/// Likewise, with transfers as they are between the groups of neighbours: they count in the slowest
/// stage, too.
class NeighbourPaths {
public:
  /// As that of StatePaths.
  struct Memory {
    /// By place (position, option behind it, and most that it receives) and state: the least of the
    /// layers before, with the transfers there.
    std::vector<double> fills, forwards;
    /// Of the position in hand, likewise by option that ends there and most gradient that it may
    /// receive, without those transfers.
    std::vector<double> endingFills, endingForwards;
  };
  /// All outlive this. `stages`: by end; `batch`: samples of a full micro-batch.
  NeighbourPaths(const Evaluator &evaluator, const DeviceStates &states, PathTable &paths,
                 int64_t batch, llvm::ArrayRef<StateStage> stages, Memory &memory);

  /// Stages and pairs of neighbours, which a solve looks at in each state.
  static size_t additions(const SearchSpace &space, llvm::ArrayRef<StateStage> stages);
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
    size_t first = 0;          // place of the first of them
  };
  struct Position {
    std::vector<Side> ending, behind; // by face
    std::vector<Boundary> boundaries; // by ending, then behind
    size_t firstStage = 0;            // of `chained`, that ends here
    size_t endingPlaces = 0;

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
  void addTransfers(int end);
  double coreOf(const StateStage &stage) const {
    return stage.time - stage.receive - stage.gradient;
  }
  /// Of `side`, where a stage begins: how many of its times leave the stage below the limit.
  size_t allowed(const StateStage &stage, const Side &side, double gradient) const;
  const Side &sideOf(const Chained &of) const;

  const Evaluator &evaluator;
  const DeviceStates &states;
  PathTable &paths;
  const int64_t batch;
  std::vector<Chained> chained; // by end
  double below = 0;
  std::vector<Position> positions;
  size_t places = 0;
  Memory &memory;
  int64_t looked = 0;
};

} // namespace heterplan
