// Running of Python programs that belong to heterplan.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// The Python that has torch: $HETERPLAN_PYTHON, the project's own environment in a folder above
/// this program (build/bin, build/asan/bin), or the one on the path.
std::string findPython();

/// Runs `program` (found on the path when it is a plain name) with the terminal of this process,
/// and waits; `quiet`: what it prints on stdout goes to stderr. Its exit status; CannotRead when it
/// cannot be started or was ended by a signal.
llvm::Expected<int> runProgram(llvm::StringRef program, const std::vector<std::string> &arguments,
                               bool quiet);

} // namespace heterplan
