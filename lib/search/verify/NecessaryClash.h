// Proof of infeasibility without a search: conditions that every plan must meet, stated to Z3 with
// one tracked assertion for each wish of the user. If they contradict, the unsat core names the
// wishes that clash. If they do not, nothing is proven.
#pragma once

#include "cost/CostModel.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// A model, a cluster and wishes; 0 or empty: no such wish.
struct WishedPlan {
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  Samples globalBatch{};
  Optimizer optimizer = Optimizer::Sgd;
  SamplesPerSecond minThroughput{};
  DollarsPerHour maxCostPerHour{};
  std::vector<Pin> pins;
  bool ignoreMemory = false;
};

/// Names of wishes that contradict each other and the devices that there are, none of which can be
/// left out: "throughput-floor", "budget", "memory", "pin LAYER=TYPE". None when the conditions can
/// be met, when Z3 cannot tell, or when there are too many prices to ask for.
///
/// The conditions, with n_t devices of type t in use, z_lt the share of layer l's samples that type
/// t processes, and u_lt the least time of a sample of l on t over all shares of the batch:
///   Σ_t z_lt = 1 and z_lt ≤ n_t; n_t is at most what the cluster has
///   throughput-floor: floor · Σ_l u_lt·z_lt ≤ n_t for each t, as no device works for longer than
///   the iteration
///   budget: Σ_t price_t·n_t ≤ budget
///   memory: Σ_l copies·parameters_l·z_lt ≤ n_t·memory_t, and z_lt = 0 where l alone does not fit
///   pin l=t: z_lt = 1
/// Fails when the cost model does.
llvm::Expected<std::optional<std::vector<std::string>>> necessaryClash(const WishedPlan &wished);

} // namespace heterplan
