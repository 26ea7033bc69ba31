#include "OptionTexts.h"
#include "ShellText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace llvm;

namespace heterplan {

namespace {
/// As text of roff: no character of it means anything.
std::string roff(StringRef text) {
  std::string result;
  for (char c : text)
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  bool isRequest = StringRef(result).startswith(".") || StringRef(result).startswith("'");
  return (isRequest ? "\\&" : "") + result;
}

void printOption(raw_ostream &os, const OptionText &option) {
  os << ".TP\n";
  if (option.names.empty()) {
    os << ".I " << roff(option.value) << '\n';
  } else {
    os << "\\fB" << roff(join(option.names, ", ")) << "\\fR";
    if (!option.value.empty())
      os << " \\fI" << roff(option.value) << "\\fR";
    os << '\n';
  }
  os << roff(option.help) << '\n';
}

/// The headings of `options`, in the order in which they come first.
std::vector<std::string> groupsOf(const std::vector<OptionText> &options) {
  std::vector<std::string> groups;
  for (const OptionText &option : options)
    if (!option.group.empty() && !is_contained(groups, option.group))
      groups.push_back(option.group);
  return groups;
}

void printCommand(raw_ostream &os, const CLI::App &command) {
  std::vector<OptionText> options = optionsOf(command);
  os << ".SS heterplan " << command.get_name() << " [OPTIONS]";
  for (const OptionText &option : options)
    if (option.names.empty())
      os << ' ' << roff(option.value);
  os << '\n' << roff(command.get_description()) << '\n';
  for (const std::string &group : groupsOf(options)) {
    os << ".PP\n.B " << roff(group) << '\n';
    for (const OptionText &option : options)
      if (option.group == group)
        printOption(os, option);
  }
}

constexpr const char *beginning =
    R"(.TH HETERPLAN 1 "" "heterplan )" HETERPLAN_VERSION R"(" "User Commands"
.SH NAME
heterplan \- plans and compiles the training of neural networks on unequal devices
.SH SYNOPSIS
.B heterplan
.I COMMAND
[OPTIONS]
.SH DESCRIPTION
heterplan reads a model (ONNX) and a description of a cluster of unequal devices, decides which layers
run where, on how many devices and with which share of the batch, and writes a directory that PyTorch
can run. What people read goes to standard output; diagnostics and progress go to standard error.
.SH COMMANDS
)";

constexpr const char *ending = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
wrong usage or bad input: one diagnostic, nothing written
.TP
.B 2
an answer, but not the one asked for: no plan meets the limits, or a check failed
.TP
.B 3
internal error
.SH ENVIRONMENT
.TP
.B HETERPLAN_PROFILES
the folder of the hardware catalogue; otherwise the one beside the executable
.TP
.B HETERPLAN_PYTHON
the Python (with torch) that run and profile use
.SH SEE ALSO
.B heterplan explain
.I CODE
says what a diagnostic means.
)";
} // namespace

void printManual(raw_ostream &os, const CLI::App &root) {
  os << beginning;
  for (const CLI::App *command : commandsOf(root))
    printCommand(os, *command);
  os << ending;
}

} // namespace heterplan
