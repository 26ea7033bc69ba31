#include "codegen/Resources.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

Expected<std::string> findRuntime(StringRef executablePath) {
  std::string tried;
  for (const char *relative : {"../share/heterplan/runtime", "../../lib/codegen/runtime"}) {
    SmallString<256> path(sys::path::parent_path(executablePath));
    sys::path::append(path, relative, "heterplan_runtime");
    sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    if (sys::fs::exists(path + "/__main__.py"))
      return path.str().str();
    tried += (tried.empty() ? "" : ", ") + path.str().str();
  }
  return Diagnostic(Diag::CannotRead, {}).note({}, "tried " + tried)
         << "the Python package heterplan_runtime, which is copied next to each plan, is not there";
}

} // namespace heterplan
