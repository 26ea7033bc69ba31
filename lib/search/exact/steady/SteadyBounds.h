// Bounds where the slowest stage alone sets the iteration time, by a surrogate relaxation (Glover,
// 1968): one limit, on a weighted sum of the devices, in place of those on the devices of each
// type.
#pragma once

#include "search/exact/Lagrangian.h"
#include "search/placement/StageTable.h"

#include <vector>

namespace heterplan {

/// Bounds for one number of micro-batches m. The limits on the devices of each type are replaced by
/// one on their weighted sum Σ_t λ_t·devices_t, which is valid for any λ ≥ 0. The λ are small
/// integers where that leaves few sums, so that a limit on one type is kept exactly; otherwise the
/// sum is taken in `levels` steps, rounded in favour of the bound. A recursion over the cut
/// positions finds for each position, and each number of levels that are left, the least max τ of
/// the open stages and their least Σ price·m·τ.
class SteadyBounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. `evaluator`
  /// outlives this.
  SteadyBounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
               const Tuning &tuning);

  /// Least iteration time of any completion, seconds; some layers are open.
  double time(const PartialPlacement &partial) const;
  /// Least Σ price·m·τ of its open stages, dollars per hour · seconds.
  double paid(const PartialPlacement &partial) const {
    return rests[place(partial.position, levelLeft(partial))].paid;
  }

private:
  /// The least slowest stage and the least price of some layers: seconds, dollars per hour ·
  /// seconds.
  struct Least {
    double slowest, paid;
  };

  void setWeights(const StageTable &table);
  bool weighInIntegers(int mostLevels);
  void setLevels(const Tuning &tuning);
  void solve(const StageTable &table, bool wholeModelGroups);
  std::vector<Least> leastByLevel(const StageTable &table, bool wholeModelGroups, int begin,
                                  int end) const;
  void addLastStage(int begin, int end, int taken, Least own);
  int levelLeft(const PartialPlacement &partial) const;
  size_t place(int position, int level) const { return size_t(position) * (levels + 1) + level; }

  const Evaluator &evaluator;
  const int microBatches, positions;
  std::vector<double> weights;   // λ, by type
  int levels = 0;                // all devices take so many
  double levelStep = 1;          // weight of one level
  int leastLevel = 1;            // what any open stage needs: 0 where a type weighs nothing
  std::vector<int> optionLevels; // levels that an option takes, rounded down
  std::vector<Least> rests;      // of the layers before a position, by position and level
};

} // namespace heterplan
