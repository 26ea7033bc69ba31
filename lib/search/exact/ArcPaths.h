// Shortest paths over the stage network in which stages pay for the devices that they take.
#pragma once

#include "search/exact/Interval.h"
#include "search/network/NodePlaces.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace heterplan {

/// Prices that stages pay under multipliers.
struct Charges {
  std::vector<double> options; // for their devices
  double second;               // of Σ τ + exposed synchronisation
  bool countsMoney;            // the price of the iteration too
};

/// A stage of a path, and the seconds that it adds to Σ τ + exposed synchronisation.
struct PathStep {
  int choice;
  double seconds;
};
/// From the last stage to the first.
using ArcPath = std::vector<PathStep>;

/// Finds the paths with the least F and the least f before each place: F' = τ + max(F, sync + f),
/// f' = forward + f (docs/rationale/search.md, "Lagrangian bounds").
class ArcPaths {
public:
  /// `places` outlives this.
  explicit ArcPaths(const NodePlaces &places) : places(places) {}

  /// Puts the stages of an interval in the order in which `solve` reads them; `money`: what one is
  /// paid for an iteration.
  void list(llvm::ArrayRef<StageArc> choices, llvm::ArrayRef<int> listed,
            llvm::function_ref<double(const StageArc &)> money);
  /// Finds the least of each place into `bounds`. Returns the least of all layers.
  double solve(const Charges &charges, LagrangianBounds &bounds, int positions);
  /// The path of the last `solve`.
  ArcPath path(llvm::ArrayRef<StageArc> choices, int positions) const;
  /// Frees the memory of the stages that were listed.
  void forget() { arcs = {}; }

private:
  struct Arc {
    double time, forward, sync;
    double money; // for an iteration of the interval, dollars per hour · seconds; 0: not counted
    int choice, option;
    unsigned before, behind; // places, of those of one position
  };
  /// Which choice reached a place, and from where: with the least fill, and the least forward time.
  struct Step {
    int fillChoice, forwardChoice;
    unsigned fillFrom, forwardFrom;
    bool behindSync; // the rest before the stage is hidden behind its synchronisation
  };
  void takeFewer(int position, LagrangianBounds &bounds);

  const NodePlaces &places;
  std::vector<Arc> arcs;   // by end
  std::vector<Step> steps; // by place
};

} // namespace heterplan
