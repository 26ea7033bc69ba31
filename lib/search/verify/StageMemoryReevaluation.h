// The memory of the devices of a stage, computed afresh for the checker from the definitions in
// cost/Memory.h.
#pragma once

#include "search/verify/Reevaluation.h"

#include <map>

namespace heterplan {

class StageMemoryReevaluator {
public:
  /// `cuts` are those of `graph`; all outlive this.
  StageMemoryReevaluator(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                         const std::vector<Cut> &cuts)
      : plan(plan), graph(graph), cluster(cluster), cuts(cuts) {}

  /// Fills in what each device of stage `stage` of the plan needs.
  void addNeeds(size_t stage, ReevaluatedStage &facts) const;

private:
  using DenseNeeds = std::map<int64_t, Bytes>; // of a stage, by samples

  int inFlight(size_t stage) const;
  Bytes parameterMemory(const ReevaluatedStage &facts) const;
  Bytes slicedParameters(const ReevaluatedStage &facts) const;
  /// The need of a device of one replica with `samples` of each micro-batch, its process included.
  Bytes needOf(size_t stage, const ReevaluatedStage &facts, size_t replica, Samples samples,
               DenseNeeds &known) const;
  Bytes denseOf(size_t stage, const ReevaluatedStage &facts, Samples samples,
                DenseNeeds &known) const;
  Bytes activationMemory(const ReevaluatedStage &facts, Samples samples, int inFlight) const;
  Bytes workspace(const ReevaluatedStage &facts, Samples samples) const;
  Bytes convolution(const ReevaluatedStage &facts, Samples samples) const;
  Bytes workspaceLast(const ReevaluatedStage &facts, Samples samples) const;

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const std::vector<Cut> &cuts;
};

} // namespace heterplan
