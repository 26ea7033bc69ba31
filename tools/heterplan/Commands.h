// How a subcommand plugs into the program: it adds its options to the parser and, when it is the
// one that was given, leaves the work to do in an Action. Parsing and working stay apart, so that
// an error of usage never starts any work.
#pragma once

#include "Parser.h"

#include "llvm/Support/Error.h"

#include <functional>

namespace heterplan {

/// The exit status of the process, which is part of the contract of the command line.
enum ExitStatus : int {
  exitDone = 0,
  exitUsage = 1,      // wrong usage or bad input
  exitInfeasible = 2, // no plan exists, or a check failed
  exitInternal = 3,
};

/// Puts the options that are added to `command` from here on under this heading in help texts.
void beginGroup(CLI::App &command, const std::string &heading);

/// An option that takes one text, read later by the functions of Options.h; an empty text is
/// refused.
CLI::Option *addText(CLI::App &command, const std::string &flags, std::string &target,
                     const std::string &type, const std::string &help);
/// An option that takes one text each time that it is given, and may be given several times.
CLI::Option *addTexts(CLI::App &command, const std::string &flags, std::vector<std::string> &target,
                      const std::string &type, const std::string &help);
/// A required argument by position.
CLI::Option *addArgument(CLI::App &command, const std::string &name, std::string &target,
                         const std::string &help);

/// The work of a parsed command; an error ends the process with exitUsage.
using Action = std::function<llvm::Expected<ExitStatus>()>;

#define HETERPLAN_COMMAND(enumerator) void add##enumerator(CLI::App &root, Action &action);
#include "Commands.def"

} // namespace heterplan
