#include "Commands.h"
#include "HelpFormatter.h"
#include "Hints.h"
#include "OptionTexts.h"

#include "support/Diagnostic.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstring>
#include <optional>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace heterplan;

namespace {

/// Broken invariants (assertions) and LLVM's fatal errors end as internal errors.
void onAbort(int) {
  constexpr char text[] = "heterplan: internal error: an invariant is broken; please report it\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  _exit(exitInternal);
}

void onFatal(void *, const char *reason, bool) {
  llvm::errs() << "heterplan: internal error: " << reason << '\n';
  _exit(exitInternal);
}

void onBadAlloc(void *, const char *, bool) {
  constexpr char text[] = "heterplan: internal error: out of memory\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  _exit(exitInternal);
}

void installHandlers() {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is noticed when the output is flushed
  std::signal(SIGABRT, onAbort);
  llvm::install_fatal_error_handler(onFatal);
  llvm::install_bad_alloc_error_handler(onBadAlloc);
}

/// The search frees large tables and allocates others. The allocator keeps their memory, so that
/// the kernel does not clear pages each time, which took 5 to 9 % of the CPU of `compile`.
void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that glibc allows
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
#endif
}

/// "'foo' is not a command": CLI11 only says that one is required.
std::string unknownCommand(const CLI::App &app, const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::App *sub : commandsOf(app))
    names.push_back(sub->get_name());
  std::string meant = commandHint(word);
  return "'" + word + "' is not a command" +
         (meant.empty() ? didYouMean(word, names) : "; did you mean '" + meant + "'?");
}

/// "--foo is not an option of compile", with the remedy or the option that was probably meant.
std::string unknownOption(const CLI::App &app, const CLI::App &command, const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  std::string text = "'" + word + "' is not an option of " + command.get_name();
  if (std::string hint = optionHint(command, word); !hint.empty())
    return text + "; " + hint;
  if (std::string meant = didYouMean(word, names); !meant.empty())
    return text + meant;
  std::string owners = otherCommandHint(app, word);
  return owners.empty() ? text : text + "; " + owners;
}

std::string usageMessage(const CLI::App &app, const CLI::ParseError &error) {
  std::vector<std::string> unread = app.remaining(/*recurse=*/true);
  if (unread.empty()) {
    for (const CLI::App *command : app.get_subcommands())
      if (std::string hint = swallowedHint(*command); !hint.empty())
        return hint;
    return error.what();
  }
  if (app.get_subcommands().empty())
    return unknownCommand(app, unread.front());
  auto option = llvm::find_if(
      unread, [](const std::string &word) { return llvm::StringRef(word).startswith("-"); });
  const CLI::App &command = *app.get_subcommands().front();
  if (option != unread.end())
    return unknownOption(app, command, *option);
  return extraWordMessage(command, unread.front());
}

ExitStatus reportUsage(const CLI::App &app, const CLI::ParseError &error) {
  std::string command = "heterplan";
  for (const CLI::App *sub : app.get_subcommands())
    command += " " + sub->get_name();
  llvm::Error diagnostic = Diagnostic(Diag::Usage, {"", 0, 0, command})
                               .note({}, "'" + command + " --help' lists what is accepted")
                           << usageMessage(app, error);
  llvm::errs() << toText(std::move(diagnostic)) << '\n';
  return exitUsage;
}

/// Empty: go on and run the action.
std::optional<ExitStatus> parse(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0)
      return reportUsage(app, error);
    app.exit(error); // --help, --version
    std::cout.flush();
    return exitDone;
  }
}

ExitStatus runCommandLine(int argc, char **argv) {
  CLI::App app{"Plans and compiles the training of neural networks on unequal devices."};
  app.name("heterplan");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "heterplan " HETERPLAN_VERSION);
  app.require_subcommand(1);
  Action action;
#define HETERPLAN_COMMAND(enumerator) add##enumerator(app, action);
#include "Commands.def"
  if (std::optional<ExitStatus> status = parse(app, argc, argv))
    return *status;
  llvm::Expected<ExitStatus> status = action();
  if (status)
    return *status;
  llvm::errs() << toText(status.takeError()) << '\n';
  return exitUsage;
}

/// Output that nobody reads any more is no error; output that cannot be stored is.
ExitStatus flushOutput(ExitStatus status) {
  llvm::outs().flush();
  std::error_code failure = llvm::outs().error();
  llvm::outs().clear_error();
  if (!failure || failure == std::errc::broken_pipe)
    return status;
  llvm::errs() << toText(Diagnostic(Diag::CannotWrite, {"standard output", 0, 0, ""})
                         << "cannot write: " << failure.message())
               << '\n';
  return status == exitDone ? exitUsage : status;
}

} // namespace

int main(int argc, char **argv) {
  keepFreedMemory();
  installHandlers();
  try {
    return flushOutput(runCommandLine(argc, argv));
  } catch (const std::exception &error) {
    llvm::errs() << "heterplan: internal error: " << error.what() << '\n';
  } catch (...) {
    llvm::errs() << "heterplan: internal error: unknown exception\n";
  }
  llvm::outs().flush();
  llvm::outs().clear_error();
  return exitInternal;
}
