// What strategies that try assignments share: scores, the best one so far, work and randomness.
#pragma once

#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"
#include "search/provision/Provisioning.h"

#include <map>

namespace heterplan {

class AssignmentSearch {
public:
  /// Starts with all layers on one type, for each type.
  AssignmentSearch(Evaluator &evaluator, const SearchOptions &options, double workShare);

  Evaluator &evaluator;
  const AssignmentSpace assignments;
  SearchBudget meter;
  std::mt19937_64 random;

  /// Objective of the best sizing of `assignment`; infinite where there is none.
  double score(const TypeAssignment &assignment);
  /// Lets `placement` be the best if it is.
  void consider(const std::optional<Placement> &placement);

  /// Changes one block, or the number of micro-batches, of the best assignment as long as that
  /// helps; then the group of one stage, which may have several types, or puts all layers on one
  /// group. Ends with the work, or when no change helps.
  void descend();

  const TypeAssignment &bestAssignment() const { return best; }
  double bestScore() const { return bestObjective; }
  Solution solution() const {
    return {placement, std::nullopt, meter.termination(/*proven=*/false, placement.has_value())};
  }

private:
  bool improveBlock();
  bool improveGroup();
  void tryWholeModel();
  void tryPlacement(Placement other);

  Provisioner provisioner;
  std::map<std::pair<int, std::vector<int>>, double> known;
  TypeAssignment best;
  std::optional<Placement> placement;
  double bestObjective;
};

/// Another assignment near `assignment`: a boundary moved, a run of blocks put on another type, two
/// runs made one, a cut set or taken out, or other micro-batches.
TypeAssignment neighbour(const AssignmentSpace &assignments, TypeAssignment assignment,
                         std::mt19937_64 &random);

} // namespace heterplan
