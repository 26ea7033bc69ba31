// The constraints of a plan as formulas, one function each, so that each can be read beside the
// sentence that it states. Checker.cpp puts them together.
#pragma once

#include "search/verify/Recomputation.h"
#include "search/verify/Solver.h"

#include <vector>

namespace heterplan {

/// What is checked and what it is checked against.
struct CheckInputs {
  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const Recomputation &recomputed;
};

/// About the structure of the plan.
Constraint layersOnce(const CheckInputs &in);
Constraint stageOrder(const CheckInputs &in);
Constraint tiedParameters(const CheckInputs &in);
Constraint scheduleFits(const CheckInputs &in);
Constraint deviceGroups(const CheckInputs &in);
Constraint devicesExist(const CheckInputs &in);
Constraint devicesUsedOnce(const CheckInputs &in);
Constraint sharesSum(const CheckInputs &in);
Constraint tableShards(const CheckInputs &in);
Constraint pinsKept(const CheckInputs &in);
Constraint colocationsKept(const CheckInputs &in);
Constraint separationsKept(const CheckInputs &in);
Constraint fingerprintsMatch(const CheckInputs &in);

/// About its figures.
Constraint memoryFits(const CheckInputs &in);
Constraint timingIsRight(const CheckInputs &in);
Constraint boundIsConsistent(const CheckInputs &in);
Constraint throughputFloor(const CheckInputs &in);
Constraint budget(const CheckInputs &in);

} // namespace heterplan
