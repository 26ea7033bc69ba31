// Proof of infeasibility without a search: conditions that every plan must meet, stated to Z3 with
// one tracked assertion for each constraint of the user. If they contradict, the unsat core names
// the constraints that conflict. If they do not, nothing is proven.
#pragma once

#include "search/verify/RequestedPlan.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// Names of constraints (RequestedPlan.h) that contradict each other and the devices that there
/// are, none of which can be left out. None when the conditions can be met, when Z3 cannot tell, or
/// when there are too many prices to ask for.
///
/// The conditions, with n_t devices of type t in use, at most what the cluster has, z_lt the share
/// of layer l's samples that type t processes (Σ_t z_lt = 1, z_lt ≤ n_t), and y_lt the share of the
/// rows of l's sparse tables that type t holds (Σ_t y_lt = 1, y_lt ≤ batch·z_lt, since who holds
/// rows processes a sample at least):
///
/// - throughput-floor, synchronous: floor · Σ_l u_lt·z_lt ≤ n_t for each t, as no device
///   works for longer than the iteration; u_lt is the least time of a sample of l on t over all
///   shares.
/// - throughput-floor, steady state (HeterPS): with the longest stage time P = batch / (floor ·
/// micro-batches), a
///   stage of k units takes Σ serial + Σ parallel/k ≤ P to compute, and likewise to communicate: so
///   Σ_l (serial + parallel)_lt·z_lt ≤ P·n_t. And l needs units when alone: z_lt·units_lt ≤ n_t.
/// - micro-batches: their number in P; without the constraint P is that of the usual number.
/// - budget: Σ_t price_t·n_t ≤ budget.
/// - memory: Σ_l (copies·dense_l·z_lt + (copies−1)·tables_l·y_lt) ≤ n_t·memory_t, and z_lt = 0
///   where l alone does not fit.
/// - pin l=t: z_lt = 1.
/// - colocate l,...: every layer from the first of them to the last has the same z, 0 for types
///   whose memory does not hold them all.
/// - separate l,...: Σ_t n_t is at least their number.
/// - schedule: Σ_t n_t ≥ 2 (pipeline), or as if all layers were to be together (data-parallel).
///
/// Fails when the cost model does.
llvm::Expected<std::optional<std::vector<std::string>>>
necessaryConflict(const RequestedPlan &requested);

} // namespace heterplan
