// Remedies for typical mistakes at the command line: words of other programs, files that are no
// models, and options that take the model as one of their values. The table is Hints.def.
#pragma once

#include "Parser.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan {

/// The remedy for `option` ("--batch-size"), which `command` does not have, or "". A remedy that
/// names an option of its own is given only to commands that have it.
std::string optionHint(const CLI::App &command, llvm::StringRef option);

/// "it is an option of heterplan run" where other commands of `app` have `option`, or "".
std::string otherCommandHint(const CLI::App &app, llvm::StringRef option);

/// The message for a word that `command` has no place for; names the option of a cluster file.
std::string extraWordMessage(const CLI::App &command, const std::string &word);

/// The command that `word` means ("plan": "compile"), or "".
std::string commandHint(llvm::StringRef word);

/// The remedy for `path` in the place of a model, by its ending, or "".
std::string modelHint(llvm::StringRef path);

/// The remedy if an option with several values took the argument that `command` lacks, or "".
std::string swallowedHint(const CLI::App &command);

} // namespace heterplan
