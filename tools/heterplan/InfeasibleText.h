// How an explanation of infeasibility is shown: as text or as JSON, on stdout, for it is an answer.
#pragma once

#include "search/explain/Explain.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace heterplan {

void printInfeasible(llvm::raw_ostream &os, const Explanation &explanation);
/// `space` was searched, but for what `leftOut` says.
void writeInfeasible(llvm::raw_ostream &os, const Explanation &explanation, llvm::StringRef space,
                     llvm::ArrayRef<std::string> leftOut);

} // namespace heterplan
