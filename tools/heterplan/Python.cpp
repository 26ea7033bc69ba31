#include "Python.h"

#include "Inputs.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
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

namespace {
volatile sig_atomic_t child = 0, ending = 0; // of runProgram; signal handlers have no arguments

/// Passes on what was sent to this process alone; the terminal signals the whole group.
void passOn(int signal, siginfo_t *info, void *) {
  ending = signal;
  if (child > 0 && info->si_code <= 0)
    kill(pid_t(child), signal);
}

/// Signals that end this process go to its child while this lives.
class ForwardedSignals {
public:
  ForwardedSignals() {
    ending = 0;
    struct sigaction action = {};
    action.sa_sigaction = passOn;
    action.sa_flags = SA_SIGINFO;
    for (size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &action, &before[i]);
  }
  ~ForwardedSignals() {
    for (size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &before[i], nullptr);
    child = 0;
  }
  /// As a child has them.
  void undo() const {
    for (size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &before[i], nullptr);
  }

private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before[std::size(signals)];
};

/// In the child: never returns. It ends when this process is killed.
[[noreturn]] void become(const std::vector<char *> &command, bool quiet, pid_t parent,
                         const ForwardedSignals &forwarded) {
  forwarded.undo();
  std::signal(SIGPIPE, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(127);
  if (quiet)
    dup2(STDERR_FILENO, STDOUT_FILENO);
  execv(command.front(), command.data());
  _exit(127);
}

/// The status of waitpid(); signals interrupt the waiting, not the wait.
int waitFor(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}
} // namespace

Expected<int> runProgram(StringRef program, const std::vector<std::string> &arguments, bool quiet) {
  Location place{arguments.empty() ? program.str() : arguments.front(), 0, 0, ""};
  ErrorOr<std::string> found = sys::findProgramByName(program);
  if (!found || !sys::fs::can_execute(*found))
    return Diagnostic(Diag::CannotRead, place) << "needs " << program << ", which is not found";
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), *found);
  std::vector<char *> command;
  command.reserve(words.size() + 1);
  for (std::string &word : words)
    command.push_back(word.data());
  command.push_back(nullptr);
  outs().flush();
  ForwardedSignals forwarded;
  pid_t parent = getpid(), process = fork();
  if (process == 0)
    become(command, quiet, parent, forwarded);
  if (process < 0)
    return Diagnostic(Diag::CannotRead, place) << "cannot be run: " << strerror(errno);
  child = process;
  if (ending) // came before the child was known
    kill(process, int(ending));
  int status = waitFor(process);
  if (ending || WIFSIGNALED(status))
    return Diagnostic(Diag::CannotRead, place)
           << "ended by signal: " << strsignal(ending ? int(ending) : WTERMSIG(status));
  return WEXITSTATUS(status);
}

} // namespace heterplan
