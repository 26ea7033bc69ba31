#include "Python.h"

#include "Inputs.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <csignal>
#include <cstdlib>
#include <unistd.h>

using namespace llvm;

namespace heterplan {

std::string findPython() {
  if (const char *chosen = std::getenv("HETERPLAN_PYTHON"); chosen && *chosen)
    return chosen;
  std::string self = executablePath();
  StringRef folder = sys::path::parent_path(self);
  for (int level = 0; level < 4 && !folder.empty(); ++level) {
    folder = sys::path::parent_path(folder);
    SmallString<256> candidate(folder);
    sys::path::append(candidate, ".venv", "bin", "python");
    if (sys::fs::can_execute(candidate))
      return candidate.str().str();
  }
  return "python3";
}

Expected<int> runProgram(StringRef program, const std::vector<std::string> &arguments, bool quiet) {
  Location place{arguments.empty() ? program.str() : arguments.front(), 0, 0, ""};
  ErrorOr<std::string> found = sys::findProgramByName(program);
  if (!found || !sys::fs::can_execute(*found))
    return Diagnostic(Diag::CannotRead, place) << "needs " << program << ", which is not found";
  std::signal(SIGPIPE, SIG_DFL); // inherited by the program
  std::vector<StringRef> command = {*found};
  command.insert(command.end(), arguments.begin(), arguments.end());
  outs().flush();
  std::string message;
  int out = quiet ? dup(STDOUT_FILENO) : -1;
  if (quiet)
    dup2(STDERR_FILENO, STDOUT_FILENO);
  int status = sys::ExecuteAndWait(*found, command, None, {}, 0, 0, &message);
  if (quiet) {
    dup2(out, STDOUT_FILENO);
    close(out);
  }
  std::signal(SIGPIPE, SIG_IGN);
  if (status < 0)
    return Diagnostic(Diag::CannotRead, place) << "cannot be run to its end: " << message;
  return status;
}

} // namespace heterplan
