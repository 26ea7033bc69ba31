// Finds the files that belong to the program but are not in it: the Python runtime.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// The folder of the package heterplan_runtime, found from the path of the running executable:
/// ../share/heterplan/runtime (installed, and in a build folder) or ../../lib/codegen/runtime
/// (source tree). Fails with CannotRead, naming what was tried.
llvm::Expected<std::string> findRuntime(llvm::StringRef executablePath);

} // namespace heterplan
