// From the chosen placement to a Plan.
#pragma once

#include "search/placement/Evaluator.h"

namespace heterplan {

/// A plan for `problem`: what was asked for, without stages and figures.
Plan planFor(const Problem &problem);

/// Takes into the memory of `stage` a device of `type` that holds `tensors` of it.
void stateNeed(Bytes tensors, const DeviceType &type, Stage &stage);

/// States the objective value of a plan whose time and cost are filled in, and the proven `bound`
/// on it, both in the units of Plan::objectiveValue. If the plan is `optimal`, the bound is the
/// value.
void stateWorth(Plan &plan, double bound, bool optimal);

/// States the provenance of the `times` of `plan`, whose iteration is known, and its interval. If
/// nothing takes time, all of it counts as modelled.
void stateProvenance(const TimeSum &times, Plan &plan);

class PlanBuilder {
public:
  /// `evaluator` outlives this.
  PlanBuilder(Evaluator &evaluator, Placement placement)
      : evaluator(evaluator), problem(evaluator.problem), placement(std::move(placement)) {}

  /// The plan of a placement that the evaluator can measure, of the search space or not, devices
  /// assigned; `bound` is in the units of Evaluation::objective and at most the placement's. Fails
  /// when the cost model does.
  llvm::Expected<Plan> build(double bound);

private:
  void fillStage(const StageEvaluation &run, const std::vector<DeviceRef> &devices, int index,
                 Plan &plan);
  std::vector<Replica> replicasOf(const StageEvaluation &run, const PlacedStage &placed,
                                  const std::vector<DeviceRef> &devices, int inFlight);
  std::vector<TableShards> tablesOf(const PlacedStage &placed, const StageOption &option) const;
  void stateMemory(const StageEvaluation &run, const PlacedStage &placed, int inFlight,
                   Stage &stage);
  void fillObjective(const Evaluation &evaluation, double bound, Plan &plan) const;
  void fillProvenance(const Evaluation &evaluation, Plan &plan);
  void addCommunication(const Evaluation &evaluation, int stage, const Plan &plan,
                        TimeSum &times) const;
  void addComputing(const StageEvaluation &run, const PlacedStage &placed, TimeSum &times);
  void fillFits(Plan &plan) const;

  Evaluator &evaluator;
  const Problem &problem;
  Placement placement;
};

} // namespace heterplan
