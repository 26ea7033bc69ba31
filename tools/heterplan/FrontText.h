// The front of compile --pareto, for people.
#pragma once

#include "codegen/Front.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// A line for each plan; the chosen one is marked.
void printFront(llvm::raw_ostream &os, const Front &front);

} // namespace heterplan
