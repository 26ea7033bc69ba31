// The options and arguments of a command as text, for completion scripts and the manual page.
#pragma once

#include "Parser.h"

#include <string>
#include <vector>

namespace heterplan {

struct OptionText {
  std::vector<std::string> names; // with their dashes; none: an argument by position
  std::string value;              // what its value is called; "": a flag
  std::string help;
  std::string group;    // heading under which help lists it
  bool repeats = false; // may be given several times
};

/// The options and arguments of `command`; of `run` those that it passes on, too.
std::vector<OptionText> optionsOf(const CLI::App &command);

/// The commands of the program, in the order of --help.
std::vector<const CLI::App *> commandsOf(const CLI::App &root);

} // namespace heterplan
