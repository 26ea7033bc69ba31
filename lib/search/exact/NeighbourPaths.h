// Shortest paths over the cuts in which the limits on devices and the transfers between neighbours
// hold exactly.
#pragma once

#include "search/exact/StatesOfInterest.h"
#include "search/exact/Transfers.h"
#include "search/network/StageArc.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

/// Shortest paths with the transfers between the groups of neighbours, which count in the slowest
/// stage, too.
class NeighbourPaths {
public:
  /// As that of StatePaths.
  struct Memory {
    /// By position, option behind it, most that it receives and state of interest: the least of the
    /// layers before, with the transfers there.
    std::vector<double> fills, forwards;
    /// The same at the position in hand, by option that ends there and most gradient that it may
    /// receive, without those transfers.
    std::vector<double> endingFills, endingForwards;
    StatesOfInterest::Memory segments; // of the stage in hand
  };
  /// All outlive this. `interest`: other states are not looked at, as if no path had them;
  /// `stages`: by end; `batch`: samples of a full micro-batch.
  NeighbourPaths(const Evaluator &evaluator, const StatesOfInterest &interest, PathTable &paths,
                 int64_t batch, llvm::ArrayRef<StageArc> stages, Memory &memory);

  /// States of stages and of pairs of neighbours, which a solve looks at.
  static size_t additions(const SearchSpace &space, const StatesOfInterest &interest,
                          llvm::ArrayRef<StageArc> stages);
  /// Solves for stages that take less than `below` seconds, transfers included.
  void solve(double below);
  double fill(size_t state) const;
  /// A path with the least fill of `state`: indices into the stages, in order.
  std::vector<int> path(size_t state) const;
  int64_t work() const { return looked; }

private:
  /// A boundary: the transfers at a position between two options.
  struct Boundary {
    double receive = 0, gradient = 0;
    int receiveClass = 0, gradientClass = 0; // of the stage behind it, and of the one before it
  };
  /// A stage with what it and those behind it have in one node (SearchSpace::Face).
  struct Chained {
    StageArc stage;
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
  void listChains(llvm::ArrayRef<StageArc> stages);
  void listPositions();
  void setBoundaries(int position);
  Boundary boundaryOf(int position, SearchSpace::Face before, SearchSpace::Face behind) const;
  static size_t indexOf(const std::vector<Side> &sides, SearchSpace::Face face);
  void addStages(int end);
  void addStage(const Chained &of);
  void addTransfers(int end);
  double before(const std::vector<double> &least, const StageArc &stage, size_t first,
                size_t state) const;
  /// The number of times of `side`, where a stage begins, that leave the stage below the limit.
  size_t allowed(const StageArc &stage, const Side &side, double gradient) const;
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
