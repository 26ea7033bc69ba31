// How an explanation of infeasibility is shown: as text or as JSON, on stdout, for it is an answer.
#pragma once

#include "search/explain/Explain.h"
#include "search/problem/SearchSpace.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

void printInfeasible(llvm::raw_ostream &os, const Explanation &explanation);
void writeInfeasible(llvm::raw_ostream &os, const Explanation &explanation,
                     const SearchedSpace &space);

} // namespace heterplan
