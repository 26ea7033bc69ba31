// Lower bounds on what the layers that are not placed yet will add. Each holds for every placement
// of the search space, so a bound on the best completion is proven, not estimated.
#pragma once

#include "search/Evaluator.h"

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

/// Bounds for one number of micro-batches. With u[l][t] the least time per sample of layer l on one
/// device of type t, at any share that the space allows:
///   - a stage of k devices of type t takes at least Σ_l u[l][t]·b/k, so for any weights λ_t ≥ 0
///   all
///     open stages satisfy max τ · Σ_t λ_t·free_t ≥ Σ_l min_t λ_t·u[l][t]·b   (Lagrangian bound);
///   - each layer costs at least m·b·min_t price_t·u[l][t], because devices are paid for the whole
///     iteration, which is at least m·τ of their stage.
class Bounds {
public:
  /// Asks the evaluator's price table for the shares that can occur. `wholeModelGroups`: whether
  /// groups that are for one-stage plans only count too.
  Bounds(Evaluator &evaluator, int microBatches, bool wholeModelGroups);

  /// Least iteration time of any completion.
  double time(const PartialPlacement &partial) const;
  /// Least Evaluation::objective of any completion; infinite when the floor or the budget cannot
  /// hold. `timeLimit`: completions slower than that are of no interest.
  double objective(const PartialPlacement &partial, double timeLimit) const;
  /// Bound on the whole model.
  double root() const;
  double weight(int type) const { return weights[type]; }

private:
  /// Least times of one layer over all types and shares.
  struct LeastTimes {
    std::vector<double> unit; // u, by type
    double forward, total;    // of one micro-batch
  };
  static std::vector<LeastTimes> leastTimes(Evaluator &evaluator, int64_t batch, bool wholeModel);
  void setWeights(const std::vector<LeastTimes> &layers);
  void accumulate(const std::vector<LeastTimes> &layers, int64_t batch);

  const Evaluator &evaluator;
  int microBatches;
  std::vector<double> weights; // λ, by type
  // By position, of the layers before it:
  std::vector<double> leastFill, leastForward; // Σ of least times
  std::vector<double> leastSlowest;            // largest least time of one layer
  std::vector<double> work;                    // b·Σ min λ·u
  std::vector<double> cost;                    // m·b·Σ min price·u; dollars per hour · seconds
  double cheapest = 0;                         // price of the cheapest device
};

} // namespace heterplan
