// A bound that is sharper than that of NeighbourBound: paths keep the devices and the money that
// they have taken, and the slowest stage so far. If there are too many states, some are merged into
// one that is no worse than any of them (relaxed decision diagrams: Bergman, Cire, van Hoeve,
// Hooker, 2016).
#pragma once

#include "search/verify/bound/NeighbourBound.h"

#include <vector>

namespace heterplan {

class StateBound {
public:
  /// `paths` outlives this; its multipliers and stages stay as they are.
  explicit StateBound(const NeighbourBound &paths);

  /// A lower bound on what each plan of the cell takes, or the goal if that is less; 0 if the work
  /// reaches `most`. Each cut keeps at most about `width` states. Adds to `work` the stages and
  /// states that it looks at.
  double value(size_t width, size_t most, size_t &work) const;

private:
  /// The first layers of a plan. Times are without the gradient that its last stage receives.
  struct State {
    double fill = 0, forward = 0, slowest = 0, last = 0, price = 0, bound = 0;
    size_t place = 0; // of the last stage
    BoundStep::Devices taken{};
  };

  void setBound(State &state, int cut) const;
  bool isNoWorse(const State &a, const State &b) const;
  State after(const State &state, const BoundStep &step, bool inNode) const;
  void keepBest(std::vector<State> &states, size_t width, int cut, size_t &work) const;
  void merge(std::vector<State> &states, size_t exact, size_t width, int cut) const;

  const NeighbourBound &paths;
  const BoundCell cell;
  const int microBatches;
  const double highestPrice;
  std::vector<size_t> firstStep;            // by begin
  std::vector<double> leasts;               // seconds of an iteration
  std::vector<NeighbourBound::Rests> rests; // by `leasts`
  NeighbourBound::Rests times;              // seconds only
  std::vector<double> priceAfter;           // the least, by cut
};

} // namespace heterplan
