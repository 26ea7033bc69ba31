#include "Commands.h"

#include <CLI/CLI.hpp>

namespace heterplan {

namespace {
std::string refuseEmpty(const std::string &text) {
  return text.empty() ? "needs a value that is not empty" : "";
}
} // namespace

void beginGroup(CLI::App &command, const std::string &heading) {
  command.option_defaults()->group(heading);
}

CLI::Option *addText(CLI::App &command, const std::string &flags, std::string &target,
                     const std::string &type, const std::string &help) {
  return command.add_option(flags, target, help)->type_name(type)->check(refuseEmpty);
}

CLI::Option *addTexts(CLI::App &command, const std::string &flags, std::vector<std::string> &target,
                      const std::string &type, const std::string &help) {
  return command.add_option(flags, target, help)->type_name(type)->check(refuseEmpty);
}

CLI::Option *addArgument(CLI::App &command, const std::string &name, std::string &target,
                         const std::string &help) {
  return command.add_option(name, target, help)->required()->type_name("")->check(refuseEmpty);
}

} // namespace heterplan
