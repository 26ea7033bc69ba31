// The constraints of a plan as formulas, one function each, so that each can be read beside the
// sentence that it states. Checker.cpp puts them together.
#pragma once

#include "search/verify/Reevaluation.h"
#include "search/verify/Solver.h"

#include <optional>
#include <vector>

namespace heterplan {

/// The plan to check and the inputs to check it against.
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
ConstraintFormula fingerprintsMatch(const CheckInputs &in);

/// About its figures.
ConstraintFormula memoryFits(const CheckInputs &in);
ConstraintFormula timingIsRight(const CheckInputs &in);
ConstraintFormula boundIsConsistent(const CheckInputs &in);

/// The formulas for the constraints of one line of Constraints.def. There are none if the plan has
/// no such constraint or if one of the checks above covers it (memory, schedule).
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  std::optional<ConstraintFormula> check##enumerator(const CheckInputs &in);
#include "ir/Constraints.def"

} // namespace heterplan
