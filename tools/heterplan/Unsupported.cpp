// Commands that the contract names and that this version does not have yet: they say so.
#include "Commands.h"
#include "support/Diagnostic.h"

using namespace heterplan;

namespace {
constexpr struct {
  const char *name;
  const char *help;
} commands[] = {
    {"replan", "adapt a plan to a changed cluster (not supported yet)"},
};
} // namespace

void heterplan::addUnsupported(CLI::App &root, Action &action) {
  for (const auto &command : commands) {
    CLI::App *sub = root.add_subcommand(command.name, command.help);
    sub->allow_extras();
    std::string name = command.name;
    sub->callback([&action, name] {
      action = [name]() -> llvm::Expected<ExitStatus> {
        return Diagnostic(Diag::NotSupported, {"", 0, 0, "heterplan " + name})
               << "'" << name << "' is not supported in this version";
      };
    });
  }
}
