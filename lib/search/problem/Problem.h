// The planning problem: a model, a cluster, a cost model and the user's constraints, checked
// against each other. A Problem is immutable; strategies read it and evaluate placements with an
// Evaluator.
#pragma once

#include "cost/CostModel.h"
#include "cost/StageMemory.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Request.h"

#include "llvm/Support/Error.h"

namespace heterplan {

struct Problem {
  LayerGraph graph;
  Cluster cluster;
  const CostModel *costs = nullptr; // outlives the problem
  Request request;

  /// The memory of a device of `type` that a plan may use; infinite if memory does not matter.
  DeviceRoom roomOf(int type) const;
  /// Devices of `type` that a plan may use.
  int availableDevices(int type) const;
  /// At most so many devices of several node classes together.
  struct SharedLimit {
    std::vector<int> types;
    int most;
  };
  /// Limits of the request that are stricter than availableDevices() of each class.
  std::vector<SharedLimit> sharedLimits() const;

  /// Checks the request against model and cluster: batch positive, pins name a layer and a type,
  /// colocations and separations at least two layers, device limits a type each, figures finite.
  /// UnknownLayer, UnknownDevice, OutOfRange otherwise. Its graph has no in-pass all-reduces where
  /// batch normalisation is local.
  static llvm::Expected<Problem> create(LayerGraph graph, Cluster cluster, const CostModel &costs,
                                        Request request);
};

} // namespace heterplan
