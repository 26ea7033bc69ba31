#include "OptionTexts.h"

#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>

using namespace llvm;

namespace heterplan {

namespace {
OptionText textOf(const CLI::Option &option) {
  OptionText text;
  for (const std::string &name : option.get_snames())
    text.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    text.names.push_back("--" + name);
  bool takesValue = option.get_items_expected_max() > 0;
  if (takesValue)
    text.value = text.names.empty() ? option.get_name() : option.get_type_name();
  text.help = option.get_description();
  text.group = option.get_group();
  text.repeats = option.get_items_expected_max() > 1;
  return text;
}

/// The text of an option of the runtime, from its usage ("--lr X").
OptionText passedOn(StringRef usage, StringRef help) {
  auto [name, value] = usage.split(' ');
  return {{name.str()}, value.str(), help.str(), "Passed on to the runtime"};
}
} // namespace

std::vector<OptionText> optionsOf(const CLI::App &command) {
  std::vector<OptionText> options;
  for (const CLI::Option *option : command.get_options())
    options.push_back(textOf(*option));
  if (command.get_name() == "run") {
#define HETERPLAN_RUNTIME_OPTION(usage, help) options.push_back(passedOn(usage, help));
#include "RuntimeOptions.def"
  }
  return options;
}

std::vector<const CLI::App *> commandsOf(const CLI::App &root) {
  return root.get_subcommands([](const CLI::App *) { return true; });
}

} // namespace heterplan
