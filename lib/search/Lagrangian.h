// A lower bound on the iteration time in which the limits on devices hold on average: each type has
// a price in seconds (a Lagrange multiplier), placements pay for the devices that they take, and
// the cheapest one is a shortest path over the cuts. The best prices give the bound of the linear
// relaxation over all paths (Held and Karp, 1971; Geoffrion, 1974).
#pragma once

#include "search/StageTable.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

/// A placement whose stages are chosen from some position to the end.
struct PartialPlacement {
  int position = 0;         // index into SearchSpace::positions; layers before it are open
  double fill = 0;          // Σ τ of the chosen stages, seconds
  double slowest = 0;       // max τ of them
  double exposed = 0;       // synchronisation not hidden, R of the first chosen stage
  double price = 0;         // dollars per hour
  llvm::ArrayRef<int> used; // slots of each type
};

/// For one number of micro-batches m. Placements are split by their slowest stage: those whose max
/// τ lies in an interval (low, high] take at least (m−1)·low, and the least Σ τ + exposed
/// synchronisation of stages ≤ high. Each interval has its own multipliers, found by subgradient
/// ascent; intervals that decide the bound are split further. The budget, if there is one, is a
/// limit like those on devices.
class Lagrangian {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too.
  Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups);

  /// Tightens the bounds where they are below `target`, the slowest iteration of interest; may be
  /// infinite. Placements slower than that are bounded by `target` at most.
  void tighten(double target);
  /// Least iteration time of any completion; infinite where there is none. 0 before `tighten`.
  double time(const PartialPlacement &partial) const;
  /// The same for the whole model.
  double root() const;

private:
  /// One stage between two positions; times with the least that its transfers take.
  struct Choice {
    double time, forward, sync;
    int option;
  };
  /// By position: the least of the layers before it, with what they pay for their devices.
  struct Costs {
    std::vector<double> fill;    // Σ τ + exposed synchronisation
    std::vector<double> forward; // Σ forward
  };
  struct Interval {
    double low, high;                // of max τ
    std::vector<double> multipliers; // seconds for all there is of each resource
    Costs costs;
    double root; // on the iteration time
  };
  /// Which choice reached a position: the least fill, and the least forward time.
  struct Step {
    int fillBegin, forwardBegin;
    int fillChoice, forwardChoice;
    bool behindSync; // the rest before the stage is hidden behind its synchronisation
  };

  void listResources();
  void listChoices(const StageTable &table, bool wholeModelGroups);
  void listChoicesOf(const StageTable &table, bool wholeModelGroups, int begin, int end);
  double leastSlowest() const;
  void startIntervals(double target);
  void ascend(Interval &interval, double target);
  void splitDeciding(double target);
  void dropSolved(double target);
  double solve(const std::vector<double> &multipliers, double high, Costs &costs);
  std::vector<double> surplus() const;
  double openBound(const Interval &interval, const PartialPlacement &partial) const;

  const Evaluator &evaluator;
  const int microBatches, positions, types;
  std::vector<double> limits;      // of each resource: devices of a type, then the budget
  std::vector<double> use;         // by option and resource, as a share of the limit
  std::vector<Choice> choices;     // by end, then begin
  std::vector<size_t> firstChoice; // of each pair of positions
  std::vector<Interval> intervals; // ascending
  double solved = 0;               // least bound of the intervals that were dropped
  bool started = false;
  std::vector<Step> steps;         // of the last solve
  std::vector<double> optionCosts; // of the last solve
};

} // namespace heterplan
