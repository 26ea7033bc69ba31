// Shortest paths over the stage network in which stages pay for the devices that they take, and
// know how many stages lie behind them.
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
  void list(const std::vector<StageArc> &choices, llvm::ArrayRef<OpenArc> listed, Depths depths,
            int positions, llvm::function_ref<double(const StageArc &)> money);
  /// Finds the least of each place into `bounds`. Returns the least of all layers.
  double solve(const Charges &charges, LagrangianBounds &bounds);
  /// The path of the last `solve`, which made `bounds`.
  ArcPath path(llvm::ArrayRef<StageArc> choices, const Charges &charges,
               const LagrangianBounds &bounds) const;
  /// Frees the memory of the stages that were listed.
  void forget() { arcs = {}; }

private:
  struct Arc {
    double time, forward, sync;
    double money; // for an iteration of the interval, dollars per hour · seconds; 0: not counted
    int choice, option;
    int fewest, count;       // stages behind it
    unsigned before, behind; // places, of those of one position
  };
  /// A state of a path, of `forward` or of `fill`.
  struct State {
    size_t place;
    int behind = 0;
    bool forwardOnly = false;
  };
  /// The seconds that an arc adds to both figures, and its synchronisation.
  struct Added {
    double fill, forward, exposed;
  };
  static Added added(const Arc &arc, const Charges &charges) {
    const double own = charges.options[arc.option] + arc.money;
    return {own + charges.second * arc.time, own + charges.second * arc.forward,
            charges.second * arc.sync};
  }
  void finish(int position, LagrangianBounds &bounds) const;
  double figure(const State &state, const LagrangianBounds &bounds) const {
    return (state.forwardOnly ? bounds.forward : bounds.fill)[depths.at(state.place, state.behind)];
  }
  const Arc *arcInto(const State &state, int position, const Charges &charges,
                     const LagrangianBounds &bounds) const;
  size_t fewerAt(const State &state, int position, const LagrangianBounds &bounds) const;

  const NodePlaces &places;
  Depths depths;
  int positions = 0;
  std::vector<Arc> arcs;        // by end
  std::vector<size_t> firstArc; // by end, and one more
};

} // namespace heterplan
