#include "Hints.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

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
