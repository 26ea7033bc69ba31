// The parts of a stage of a plan for the checker: its layers, its segments and its replicas, looked
// up in the model and the cluster.
#pragma once

#include "search/verify/Reevaluation.h"

#include "llvm/ADT/StringMap.h"

namespace heterplan {

class StageReader {
public:
  /// All outlive this.
  StageReader(const Plan &plan, const LayerGraph &graph, const Cluster &cluster);

  /// `stage` of the plan without times and memory, or the obstacle to it.
  ReevaluatedStage read(const Stage &stage) const;

private:
  std::string placeLayers(const Stage &stage, ReevaluatedStage &facts) const;
  void addTied(ReevaluatedStage &facts) const;
  void addGathered(ReevaluatedStage &facts) const;
  std::string placeSegments(const Stage &stage, ReevaluatedStage &facts) const;
  std::string placeReplicas(const Stage &stage, ReevaluatedStage &facts) const;

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  llvm::StringMap<int> layerIndex;
};

} // namespace heterplan
