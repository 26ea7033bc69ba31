// Common parts of strategies that try assignments: scores, the best one so far, work and
// randomness.
#pragma once

#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"
#include "search/provision/Provisioning.h"
#include "search/provision/StageOrders.h"

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

  struct Assessment {
    double objective = 0; // infinite where there is no sizing
    Shortfall shortfall = {};
    double closestObjective = 0; // of the sizing that came closest; 0: of none
  };
  /// The best sizing of `assignment`.
  const Assessment &assess(const TypeAssignment &assignment);
  double score(const TypeAssignment &assignment) { return assess(assignment).objective; }
  /// Assignments that were sized and placements that were evaluated; assignments that were known
  /// already are not counted.
  int64_t evaluations() const { return sized; }
  /// By its work, its evaluations, the clock or the user.
  bool exhausted() const {
    return meter.exhausted() || (options.evaluationLimit > 0 && sized >= options.evaluationLimit);
  }
  /// Share of its work or of its evaluations, whichever is larger.
  double progress() const {
    double evaluated =
        options.evaluationLimit > 0 ? double(sized) / double(options.evaluationLimit) : 0;
    return std::max(meter.progress(), evaluated);
  }
  /// Lets `placement` be the best if it is.
  void consider(const std::optional<Placement> &placement);

  /// Changes one block, or the number of micro-batches, of the best assignment as long as that
  /// helps; then the group of one stage, which may have several types, or puts all layers on one
  /// group. Does so from the best assignments of a few numbers of micro-batches too, exchanges the
  /// groups of two stages, divides stages, moves cuts, orders all groups anew, and repeats that
  /// from random placements near the best one. Ends with the work, or when no change helps.
  void descend();

  /// At most `most` of those that were sized, the best first; feasible ones only.
  std::vector<TypeAssignment> bestAssignments(size_t most) const;
  /// The best sizing of `assignment`.
  std::optional<Placement> placementOf(const TypeAssignment &assignment);
  const TypeAssignment &bestAssignment() const { return best; }
  const std::optional<Placement> &bestPlacement() const { return placement; }
  double bestScore() const { return bestObjective; }
  Solution solution() const {
    return {placement, std::nullopt, meter.termination(/*proven=*/false, placement.has_value())};
  }

private:
  bool improveBlock();
  bool improveGroup();
  void tryWholeModel();
  static std::vector<int> keyOf(const Placement &placement);
  bool devicesSuffice(const Placement &other) const;
  double tryPlacement(Placement other);
  std::vector<Placement> neighboursOf(const Placement &current, size_t stage) const;
  void addDivisions(const Placement &current, size_t stage, std::vector<Placement> &into) const;
  void addPairs(const Placement &current, size_t stage, std::vector<Placement> &into) const;
  void addMixtures(const Placement &current, size_t stage, std::vector<Placement> &into) const;
  std::vector<Placement> wideNeighboursOf(const Placement &current, size_t stage) const;
  using Neighbours = std::vector<Placement> (AssignmentSearch::*)(const Placement &, size_t) const;
  bool improveStages(Placement &current, double &objective, Neighbours neighbours);
  bool takeBetter(std::vector<Placement> &others, Placement &current, double &objective);
  std::vector<DeviceGroup> groupsToOrder(const Placement &current) const;
  bool reorder(Placement &current, double &objective);
  void climb(Placement current);
  void climbFromFewCounts();
  Placement shaken(Placement from);
  void climbFromNearby();

  const SearchOptions &options;
  Provisioner provisioner;
  StageOrders orders;
  std::map<std::pair<int, std::vector<int>>, Assessment> known;
  std::map<std::vector<int>, double> tried; // objectives of placements
  Assessment unknown;                       // the last one, where no more are kept
  int64_t sized = 0;
  TypeAssignment best;
  std::optional<Placement> placement;
  double bestObjective;
};

/// Another assignment near `assignment`: a boundary moved, a run of blocks put on another type, two
/// runs made one, or exchanged if `mayExchange`, a cut set or taken out, or other micro-batches.
TypeAssignment neighbour(const AssignmentSpace &assignments, TypeAssignment assignment,
                         std::mt19937_64 &random, bool mayExchange = false);

} // namespace heterplan
