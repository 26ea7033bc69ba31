#include "Hints.h"

#include "OptionTexts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

using namespace llvm;

namespace heterplan {

namespace {
struct OptionHint {
  const char *command, *option, *hint;
};
constexpr OptionHint optionHints[] = {
#define HETERPLAN_OPTION_HINT(command, option, hint) {command, option, hint},
#include "Hints.def"
};

struct WordHint {
  const char *word, *hint;
};
constexpr WordHint commandHints[] = {
#define HETERPLAN_COMMAND_HINT(word, hint) {word, hint},
#include "Hints.def"
};
constexpr WordHint fileHints[] = {
#define HETERPLAN_FILE_HINT(ending, hint) {ending, hint},
#include "Hints.def"
};

/// Whether `command` has the option that `hint` begins with ("use --batch N ..."), if it does.
bool applies(StringRef hint, const CLI::App &command) {
  if (!hint.consume_front("use -"))
    return true;
  std::string name = ("-" + hint.take_until([](char c) { return c == ' ' || c == ','; })).str();
  return command.get_option_no_throw(name) != nullptr;
}

bool isMissing(const CLI::Option *option) {
  return option->get_positional() && option->get_required() && option->count() == 0;
}
} // namespace

std::string optionHint(const CLI::App &command, StringRef option) {
  std::string name = option.split('=').first.str();
  std::replace(name.begin(), name.end(), '_', '-');
  for (const OptionHint &each : optionHints)
    if (name == each.option &&
        (each.command == command.get_name() || StringRef(each.command) == "*") &&
        applies(each.hint, command))
      return each.hint;
  return "";
}

std::string otherCommandHint(const CLI::App &app, StringRef option) {
  const std::string name = option.split('=').first.str();
  std::vector<std::string> owners;
  for (const CLI::App *command : commandsOf(app))
    if (any_of(optionsOf(*command),
               [&](const OptionText &own) { return is_contained(own.names, name); }))
      owners.push_back("'heterplan " + command->get_name() + "'");
  return owners.empty() ? "" : "it is an option of " + join(owners, " and ");
}

std::string extraWordMessage(const CLI::App &command, const std::string &word) {
  const CLI::Option *cluster = command.get_option_no_throw("--cluster");
  const bool isYaml =
      StringRef(word).endswith_insensitive(".yaml") || StringRef(word).endswith_insensitive(".yml");
  if (cluster && cluster->count() == 0 && isYaml)
    return "'" + word + "' has no option before it; give a cluster with --cluster " + word;
  return "'" + word + "' is one argument too many";
}

std::string commandHint(StringRef word) {
  for (const WordHint &each : commandHints)
    if (word == each.word)
      return each.hint;
  return "";
}

std::string modelHint(StringRef path) {
  if (sys::fs::is_directory(path))
    return "it is a directory; give the .onnx file in it, or export the model: "
           "heterplan.export(module, example_inputs, \"net.onnx\")";
  for (const WordHint &each : fileHints)
    if (path.endswith_insensitive(each.word))
      return each.hint;
  return "";
}

std::string swallowedHint(const CLI::App &command) {
  std::vector<const CLI::Option *> missing;
  for (const CLI::Option *option : command.get_options())
    if (isMissing(option))
      missing.push_back(option);
  if (missing.empty())
    return "";
  for (const CLI::Option *option : command.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() <= 1 || option->count() < 2)
      continue;
    StringRef last = option->results().back();
    if (last.endswith(".onnx") || last.endswith(".json") || sys::fs::exists(last))
      return "'" + option->get_name() + "' takes several values and took '" + last.str() +
             "' as one of them; put " + missing.front()->get_name() + " before it: heterplan " +
             command.get_name() + " " + last.str() + " " + option->get_name() + " ...";
  }
  return "";
}

} // namespace heterplan
