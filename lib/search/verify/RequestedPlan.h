// The user's request as the checks see it: they do not see the search.
#pragma once

#include "cost/CostModel.h"
#include "cost/HeterPs.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Request.h"
#include "support/Deadline.h"

#include "llvm/Support/Error.h"

#include <string>
#include <utility>

namespace heterplan {

/// A model, a cluster and constraints; the names of the latter are those of ir/Constraint.h.
struct RequestedPlan {
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  const Request &request;
  int usualMicroBatches = 1; // where none are asked for; matters in steady state only
  /// When a proof has to end, with or without an answer.
  Deadline deadline = {};
};

/// The tensors of a rank for which device type `type` has room, in the part `fraction` of its
/// memory at most.
Bytes roomForTensors(const RequestedPlan &requested, size_t type, double fraction = 1);

/// First and last layer of a set of the model's layers.
std::pair<int, int> extentOf(const LayerGraph &graph, const LayerSet &layers);

/// `graph` as replicas train it that normalise by `scope`: without the all-reduces within passes if
/// each normalises by its own samples.
LayerGraph withSumsOf(LayerGraph graph, BatchNorm scope);

/// The fit of HeterPS to all layers and types for so many micro-batches. Fails when the cost model
/// does.
llvm::Expected<HeterPsModel> heterPsModelOf(const RequestedPlan &requested, int microBatches);

} // namespace heterplan
