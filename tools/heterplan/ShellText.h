// The command line in the languages of other programs: completion scripts of shells, a manual page.
// They are made from the parser, so that they know every command and option.
#pragma once

#include "Parser.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// For `source` in bash 4 or newer.
void printBashCompletion(llvm::raw_ostream &os, const CLI::App &root);
/// For `source` in zsh, or as a file `_heterplan` in $fpath.
void printZshCompletion(llvm::raw_ostream &os, const CLI::App &root);
/// In roff, as `man` reads it.
void printManual(llvm::raw_ostream &os, const CLI::App &root);

} // namespace heterplan
