// Provisioning decided exactly: whether the stages of a given assignment can be sized at all. By
// the prices of HeterPS each limit is linear in the numbers of units, so that Z3 decides small
// problems over exact rational numbers, with one tracked assertion for each constraint.
#pragma once

#include "search/verify/RequestedPlan.h"
#include "search/verify/Solver.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// A stage without its size: layers [begin, end) on units of `type`.
struct AssignedStage {
  int begin = 0, end = 0, type = 0;
};

struct SizingAnswer {
  Truth truth = Truth::Unknown;
  /// If the proof holds: units of each stage that meet every constraint.
  std::vector<int64_t> units;
  /// If the proof fails: the names of constraints (RequestedPlan.h), and "devices" for the
  /// available ones, that contradict each other for this assignment. None can be omitted.
  std::vector<std::string> conflict;
};

/// Decides whether there are k_s units for each stage s of `assignment` such that, for
/// micro-batches of b samples, and P the longest stage time of the floor,
///   1 ≤ k_s ≤ b
///   devices: Σ k_s over the stages of a type is at most what the cluster has
///   throughput-floor: serial·k_s + parallel ≤ P·k_s, both to compute and to communicate
///   budget: Σ price·k_s ≤ budget
///   memory: k_s·S_s ≥ b, where S_s samples are the most that one unit holds
///   pin, colocate, separate, schedule: as the assignment has it
///   max-devices, memory-fraction, iteration-time: like devices, memory and throughput-floor
/// Limits on the cost of samples or of an iteration, which are not linear, are left out.
/// The assignment's stages follow each other and cover the model; iterations are steady-state.
/// Fails when the cost model does.
llvm::Expected<SizingAnswer> decideSizes(const RequestedPlan &requested,
                                         const std::vector<AssignedStage> &assignment);

/// The assignment that the constraints leave when every layer has one type only that it may run on,
/// by its pin or because the cluster has no other; none where there is a choice or iterations are
/// not steady-state.
std::optional<std::vector<AssignedStage>> onlyAssignment(const RequestedPlan &requested);

/// Names of constraints that contradict each other where they leave one assignment only, the pins
/// that make it so among them. None when it can be sized, when there are more assignments, or when
/// Z3 cannot tell.
llvm::Expected<std::optional<std::vector<std::string>>>
onlyAssignmentConflict(const RequestedPlan &requested);

/// Names of constraints that contradict each other, proven without a search: by
/// necessaryConflict(), or else by onlyAssignmentConflict(). None where neither tells.
llvm::Expected<std::optional<std::vector<std::string>>>
provenConflict(const RequestedPlan &requested);

} // namespace heterplan
