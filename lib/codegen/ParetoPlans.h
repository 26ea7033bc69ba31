// The Pareto front of cost or device-seconds against throughput, for programs and for people.
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
  Objective spent = Objective::Cost; // or DeviceSeconds: what is least against throughput

  /// Dollars for a million samples, or device-seconds of an iteration.
  double spentBy(const Plan &plan) const { return heterplan::spentBy(plan, spent); }
  const char *spentName() const { // of a column, with its unit
    return spent == Objective::Cost ? "$/10^6 samples" : "device-seconds";
  }
};

/// The path of the plan of point `index` in the directory: "pareto/03/plan.json".
std::string paretoPath(size_t index);

/// pareto.json; see docs/formats.md.
std::string emitParetoFront(const ParetoPlans &front);

/// An SVG element: throughput to the right, cost of a million samples (or device-seconds) upwards,
/// a point for each plan and a step to the next, the bounds below them. "" for less than two plans.
std::string emitParetoChart(const ParetoPlans &front);

/// The same as a table of HTML.
std::string emitParetoTable(const ParetoPlans &front);

} // namespace heterplan
