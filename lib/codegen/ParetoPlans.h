// The Pareto front of cost against throughput, for programs and for people.
#pragma once

#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace heterplan {

/// Plans of a Pareto front, in ascending throughput and cost, and the one that is written out in
/// full.
struct ParetoPlans {
  llvm::ArrayRef<Plan> plans;
  size_t chosen = 0;
};

/// Where the plan of point `index` lies in the directory: "pareto/03/plan.json".
std::string paretoPath(size_t index);

/// pareto.json; see docs/formats.md.
std::string emitParetoFront(const ParetoPlans &front);

/// An SVG element: throughput to the right, cost of a million samples upwards, a point for each
/// plan and a step to the next, the bounds below them. "" for less than two plans.
std::string emitParetoChart(const ParetoPlans &front);

/// The same as a table of HTML.
std::string emitParetoTable(const ParetoPlans &front);

} // namespace heterplan
