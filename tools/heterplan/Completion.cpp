// heterplan completion: what shells and `man` need to know of the command line, made from it.
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "ShellText.h"

#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace heterplan;

namespace {
void printClusters(llvm::raw_ostream &os, const CLI::App &) {
  for (const std::string &name : bundledClusters())
    os << name << '\n';
}

llvm::Expected<ExitStatus> print(const std::string &target, const CLI::App &root) {
  llvm::Expected<size_t> choice = choiceOption("WHAT", target, {"bash", "zsh", "man", "clusters"});
  if (!choice)
    return choice.takeError();
  constexpr void (*printers[])(llvm::raw_ostream &, const CLI::App &) = {
      printBashCompletion, printZshCompletion, printManual, printClusters};
  printers[*choice](llvm::outs(), root);
  return exitDone;
}
} // namespace

void heterplan::addCompletion(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("completion", "print a completion script, or the manual page");
  auto target = std::make_shared<std::string>();
  addArgument(*command, "WHAT", *target,
              "bash, zsh, man, or clusters (the names of the bundled clusters)");
  command->footer("source <(heterplan completion bash)      # in ~/.bashrc\n"
                  "source <(heterplan completion zsh)       # in ~/.zshrc, after compinit\n"
                  "heterplan completion man | man -l -");
  command->callback(
      [target, &root, &action] { action = [=, &root] { return print(*target, root); }; });
}
