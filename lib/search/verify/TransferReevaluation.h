// The traffic between stages and its time, computed afresh for the checker.
#pragma once

#include "search/verify/Reevaluation.h"

#include <map>

namespace heterplan {

class TransferReevaluator {
public:
  /// `cuts` are those of `graph`; all outlive this.
  TransferReevaluator(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                      const std::vector<Cut> &cuts)
      : plan(plan), graph(graph), cluster(cluster), cuts(cuts), stageGraph(plan.stages) {}

  /// Fills in what each stage receives and sends. InvalidPlan where a stage does not follow one
  /// that it reads from.
  llvm::Error findFlows(std::vector<ReevaluatedStage> &stages);
  /// Fills in the times; comes after findFlows().
  void addTimes(std::vector<ReevaluatedStage> &stages) const;
  /// The price of an iteration for traffic that leaves its zone; InvalidPlan if a stage lies in
  /// several zones or in none. Call findFlows() first.
  llvm::Expected<Dollars> traffic() const;

private:
  llvm::Expected<std::vector<const Zone *>> zonesOfStages() const;
  std::map<DeviceRef, HeldSamples> heldBy(int stage) const;
  MovedSamples movedOver(const StageLink &link) const;
  bool lieInOneNode(const StageLink &link, const DeviceGroup &from, const DeviceGroup &to) const;
  TransferPath pathOf(const StageLink &link, const DeviceGroup &from, const DeviceGroup &to) const;

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const std::vector<Cut> &cuts;
  const StageGraph stageGraph;
  std::vector<Cut> crossing; // by link
};

} // namespace heterplan
