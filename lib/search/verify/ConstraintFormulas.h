// The constraints of a plan as formulas, one function each, so that each can be read beside the
// sentence that it states. Checker.cpp puts them together.
#pragma once

#include "search/verify/Reevaluation.h"
#include "search/verify/Solver.h"

#include <vector>

namespace heterplan {

/// What is checked and what it is checked against.
struct CheckInputs {
  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const Reevaluation &reevaluated;
};

/// About the structure of the plan.
ConstraintFormula layersOnce(const CheckInputs &in);
ConstraintFormula stageOrder(const CheckInputs &in);
ConstraintFormula tiedParameters(const CheckInputs &in);
ConstraintFormula scheduleFits(const CheckInputs &in);
ConstraintFormula deviceGroups(const CheckInputs &in);
ConstraintFormula devicesExist(const CheckInputs &in);
ConstraintFormula devicesUsedOnce(const CheckInputs &in);
ConstraintFormula sharesSum(const CheckInputs &in);
ConstraintFormula tableShards(const CheckInputs &in);
ConstraintFormula recomputationKept(const CheckInputs &in);
ConstraintFormula shardingKept(const CheckInputs &in);
ConstraintFormula pinsKept(const CheckInputs &in);
ConstraintFormula colocationsKept(const CheckInputs &in);
ConstraintFormula separationsKept(const CheckInputs &in);
ConstraintFormula fingerprintsMatch(const CheckInputs &in);

/// About its figures.
ConstraintFormula memoryFits(const CheckInputs &in);
ConstraintFormula timingIsRight(const CheckInputs &in);
ConstraintFormula boundIsConsistent(const CheckInputs &in);
ConstraintFormula throughputFloor(const CheckInputs &in);
ConstraintFormula budget(const CheckInputs &in);

} // namespace heterplan
