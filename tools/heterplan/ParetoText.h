// The Pareto front of compile --pareto, for people.
#pragma once

#include "codegen/ParetoPlans.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// A line for each plan; the chosen one is marked.
void printParetoFront(llvm::raw_ostream &os, const ParetoPlans &front);

} // namespace heterplan
