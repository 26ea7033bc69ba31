#include "ShellText.h"

#include "OptionChoices.h"
#include "OptionTexts.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <CLI/CLI.hpp>

#include <vector>

using namespace llvm;

namespace heterplan {

namespace {
/// The kind of an option's value.
enum class ValueKind { Other, File, Cluster };

ValueKind kindOf(const OptionText &option) {
  if (is_contained(option.names, "--cluster"))
    return ValueKind::Cluster;
  for (const char *file : {"FILE", "DIR", "MODEL", "PLAN", "JOBS", "PLACEMENT"})
    if (StringRef(option.value).contains(file))
      return ValueKind::File;
  return ValueKind::Other;
}

/// The words that the value of an option may be, with blanks between them; "": anything.
std::string choicesOf(const OptionText &option) {
  std::string words;
  if (!option.names.empty())
    for (const char *word : heterplan::choicesOf(option.names.back()))
      words += (words.empty() ? "" : " ") + std::string(word);
  return words;
}

/// A branch of `case` for each option of any command that takes one of some words.
void printChoices(raw_ostream &os, const CLI::App &root) {
  StringSet<> seen;
  for (const CLI::App *command : commandsOf(root))
    for (const OptionText &option : optionsOf(*command)) {
      std::string choices = choicesOf(option);
      if (choices.empty() || !seen.insert(option.names.front()).second)
        continue;
      os << "  " << join(option.names, "|") << ")\n    COMPREPLY=($(compgen -W "
         << "'" << choices << "' -- \"$word\"))\n    return ;;\n";
    }
}

/// All names of the options of a command.
std::string wordsOf(const CLI::App &command) {
  std::string words;
  for (const OptionText &option : optionsOf(command))
    for (const std::string &name : option.names)
      words += (words.empty() ? "" : " ") + name;
  return words;
}

/// The options of any command whose value is of `kind`, as a pattern of `case`.
std::string patternOf(const CLI::App &root, ValueKind kind) {
  std::vector<std::string> names;
  for (const CLI::App *command : commandsOf(root))
    for (const OptionText &option : optionsOf(*command))
      if (!option.value.empty() && kindOf(option) == kind)
        for (const std::string &name : option.names)
          if (!is_contained(names, name))
            names.push_back(name);
  return join(names, "|");
}

/// Each of `special` behind a backslash.
std::string escaped(StringRef text, StringRef special) {
  std::string result;
  for (char c : text) {
    if (special.contains(c))
      result += '\\';
    result += c;
  }
  return result;
}

/// Within single quotes of a shell.
std::string shellWord(StringRef text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// The function or the words by which zsh completes a value; " " if neither is known.
std::string completerOf(const OptionText &option) {
  if (std::string choices = choicesOf(option); !choices.empty())
    return "(" + choices + ")";
  switch (kindOf(option)) {
  case ValueKind::Cluster:
    return "_heterplan_clusters";
  case ValueKind::File:
    return "_files";
  case ValueKind::Other:
    return " ";
  }
  llvm_unreachable("all kinds of values are above");
}

/// `--name[help]:value:completer`, as _arguments reads it.
std::string specOf(const std::string &name, const OptionText &option) {
  constexpr const char *special = "[]:\\";
  std::string spec = (option.repeats ? "*" : "") + name + "[" + escaped(option.help, special) + "]";
  if (!option.value.empty())
    spec += ":" + escaped(option.value, special) + ":" + completerOf(option);
  return shellWord(spec);
}
} // namespace

void printBashCompletion(raw_ostream &os, const CLI::App &root) {
  os << "# Completion of heterplan in bash.\n"
        "_heterplan() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words clusters\n"
        "  COMPREPLY=()\n"
        "  if ((COMP_CWORD == 1)); then\n"
        "    words='--help --version";
  for (const CLI::App *command : commandsOf(root))
    os << ' ' << command->get_name();
  os << "'\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
        "    return\n"
        "  fi\n"
        "  case $before in\n"
        "  "
     << patternOf(root, ValueKind::Cluster)
     << ")\n"
        "    clusters=$(heterplan completion clusters 2>/dev/null)\n"
        "    COMPREPLY=($(compgen -W \"$clusters\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
        "    return ;;\n"
        "  "
     << patternOf(root, ValueKind::File)
     << ")\n"
        "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "    return ;;\n";
  printChoices(os, root);
  os << "  esac\n"
        "  case ${COMP_WORDS[1]} in\n";
  for (const CLI::App *command : commandsOf(root))
    os << "  " << command->get_name() << ") words=" << shellWord(wordsOf(*command)) << " ;;\n";
  os << "  *) return ;;\n"
        "  esac\n"
        "  if [[ $word == -* ]]; then\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
        "  else\n"
        "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
        "  fi\n"
        "}\n"
        "complete -o filenames -F _heterplan heterplan\n";
}

void printZshCompletion(raw_ostream &os, const CLI::App &root) {
  os << "#compdef heterplan\n"
        "# Completion of heterplan in zsh.\n"
        "_heterplan_clusters() {\n"
        "  compadd -- ${(f)\"$(heterplan completion clusters 2>/dev/null)\"}\n"
        "  _files\n"
        "}\n"
        "_heterplan() {\n"
        "  local -a commands=(\n";
  for (const CLI::App *command : commandsOf(root))
    os << "    " << shellWord(command->get_name() + ":" + command->get_description()) << '\n';
  os << "  )\n"
        "  if ((CURRENT == 2)); then\n"
        "    _describe command commands\n"
        "    return\n"
        "  fi\n"
        "  shift words\n"
        "  ((CURRENT--))\n"
        "  case $words[1] in\n";
  for (const CLI::App *command : commandsOf(root)) {
    os << "  " << command->get_name() << ") _arguments";
    for (const OptionText &option : optionsOf(*command))
      for (const std::string &name : option.names)
        os << " \\\n    " << specOf(name, option);
    os << " \\\n    '*:file:_files' ;;\n";
  }
  os << "  esac\n"
        "}\n"
        "if [[ $funcstack[1] == _heterplan ]]; then\n"
        "  _heterplan \"$@\"\n"
        "else\n"
        "  compdef _heterplan heterplan\n"
        "fi\n";
}

} // namespace heterplan
