// What is to be planned: a model, a cluster, a cost model and the user's wishes, checked against
// each other. A Problem is immutable; strategies read it and price placements with an Evaluator.
#pragma once

#include "cost/CostModel.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <vector>

namespace heterplan {

enum class ScheduleChoice { Auto, DataParallel, Pipeline };

/// The wishes of the user. 0 or empty: no such constraint.
struct Request {
  Samples globalBatch{256};
  Objective objective = Objective::Throughput;
  SamplesPerSecond minThroughput{};
  DollarsPerHour maxCostPerHour{};
  ScheduleChoice schedule = ScheduleChoice::Auto;
  int microBatches = 0; // 0: searched
  Optimizer optimizer = Optimizer::Sgd;
  Precision precision = Precision::Fp32;
  Pricing pricing = Pricing::HeterPlan;
  std::vector<Pin> pins;             // layer name -> device type
  std::vector<LayerSet> colocations; // the layers of each in one stage
  std::vector<LayerSet> separations; // no two layers of one in the same stage
  std::optional<Training> training;
  bool ignoreMemory = false; // used to explain infeasibility
};

struct Problem {
  LayerGraph graph;
  Cluster cluster;
  const CostModel *costs = nullptr; // outlives the problem
  Request request;

  /// Checks the request against model and cluster: batch positive, pins name a layer and a type,
  /// colocations and separations at least two layers, figures finite. UnknownLayer, UnknownDevice,
  /// OutOfRange otherwise.
  static llvm::Expected<Problem> create(LayerGraph graph, Cluster cluster, const CostModel &costs,
                                        Request request);
};

} // namespace heterplan
