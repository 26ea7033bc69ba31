// The short form of a plan that compile prints: the result, the stages, the limit and the next
// steps. `compile --verbose` and inspect print every fact instead (PlanText.h).
#pragma once

#include "ir/PlanLimits.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// Prints the result and the stages of `plan`, and the stage and the constraint that limit it: at
/// most eight lines besides the tables.
void printSummary(llvm::raw_ostream &os, const Plan &plan, const PlanLimits &limits);

/// The gap in words: "optimal in the search space" or "at most 2.31 % from the optimum of the
/// search space".
std::string gapText(const Plan &plan);

/// The iteration time and its interval: "102 ms (90 % interval 80 ms to 120 ms; 95 % of the time is
/// measured)".
std::string iterationText(const Plan &plan);

/// The stage and the constraint that limit `plan`, in words.
std::string limitText(const Plan &plan, const PlanLimits &limits);

} // namespace heterplan
