// Lower bounds on what the layers that are not placed yet will add. Each holds for every placement
// of the search space, so a bound on the best completion is proven, not estimated.
#pragma once

#include "search/StageTable.h"

#include <vector>

namespace heterplan {

/// A placement whose stages are chosen from some position to the end.
struct PartialPlacement {
  int position = 0;     // index into SearchSpace::positions; layers before it are open
  double fill = 0;      // Σ τ of the chosen stages, seconds
  double slowest = 0;   // max τ of them
  double exposed = 0;   // synchronisation not hidden, R of the first chosen stage
  double price = 0;     // dollars per hour
  double freeSpeed = 0; // Σ over types of weight · devices left
};

/// Bounds for one number of micro-batches, by a surrogate relaxation: the limits on the devices of
/// each type are replaced by one on their weighted sum Σ_t λ_t·devices_t (valid for any λ ≥ 0), in
/// `levels` steps, rounded up. Under it a dynamic programme over cut positions finds, for every
/// position and level, the least Σ τ plus exposed synchronisation, the least max τ, and the least
/// Σ price·m·τ (devices are paid for the whole iteration, which is at least m·τ of their stage).
/// Transfers enter by what they take at least, memory by what is in flight at least.
class Bounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too.
  Bounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups);

  /// Least iteration time of any completion.
  double time(const PartialPlacement &partial) const;
  /// Least Evaluation::objective of any completion; infinite when the floor or the budget cannot
  /// hold. `timeLimit`: completions slower than that are of no interest.
  double objective(const PartialPlacement &partial, double timeLimit) const;
  /// Bound on the whole model.
  double root() const;
  double weight(int type) const { return weights[type]; }

private:
  static constexpr int levels = 24;
  /// What the open layers before a position add at least, at some level.
  struct Rest {
    double fill, slowest, paid; // seconds, seconds, dollars per hour · seconds
  };

  void setWeights(const StageTable &table);
  void solve(const StageTable &table, bool wholeModelGroups);
  Rest leastRest(const StageTable &table, int position, int level, bool wholeModelGroups) const;
  int levelOf(double speed) const;
  const Rest &rest(int position, int level) const { return rests[position * levels + level]; }

  const Evaluator &evaluator;
  int microBatches;
  std::vector<double> weights;      // λ, by type
  double levelStep = 1;             // speed of one level
  std::vector<int> optionLevels;    // levels that an option takes, rounded down
  std::vector<double> leastForward; // by position: Σ of the open layers' least forward times
  std::vector<Rest> rests;          // by position and level
  double cheapest = 0;              // price of the cheapest device
};

} // namespace heterplan
