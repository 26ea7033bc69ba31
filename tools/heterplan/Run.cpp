// heterplan run: starts the launcher of a compiled plan on this machine.
#include "Commands.h"
#include "HelpFormatter.h"
#include "Inputs.h"
#include "Options.h"
#include "Python.h"
#include "ScratchFile.h"

#include "support/Files.h"
#include "support/TemporaryNames.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <cstdlib>

using namespace heterplan;
using namespace llvm;

namespace {

struct RunOptions {
  std::string directory, steps;
  std::string json; // file for the result
  bool check = false, printJson = false;
  std::vector<std::string> passedOn;
};

Expected<std::string> findLauncher(const std::string &directory) {
  SmallString<256> launcher(planDirectory(directory));
  sys::path::append(launcher, "launch.sh");
  if (sys::fs::exists(launcher))
    return launcher.str().str();
  return Diagnostic(Diag::CannotRead, {directory, 0, 0, ""})
             .note({}, "'heterplan compile MODEL.onnx --cluster C.yaml -o DIR' writes one; a plan "
                       "made from a layers file has none")
         << "there is no launcher 'launch.sh' in it";
}

/// Starts `launcher` and waits; `quiet`: what it prints on stdout goes to stderr.
Expected<int> launch(const std::string &launcher, std::vector<std::string> arguments, bool quiet) {
  setenv("HETERPLAN_PYTHON", findPython().c_str(), /*overwrite=*/1);
  arguments.insert(arguments.begin(), launcher);
  return runProgram("bash", arguments, quiet);
}

Expected<std::vector<std::string>> argumentsOf(const RunOptions &options) {
  Expected<int64_t> steps = wholeOption("--steps", options.steps, 0, 1, 1'000'000'000);
  if (!steps)
    return steps.takeError();
  std::vector<std::string> arguments;
  if (*steps)
    arguments.insert(arguments.end(), {"--steps", std::to_string(*steps)});
  if (options.check)
    arguments.push_back("--check");
  arguments.insert(arguments.end(), options.passedOn.begin(), options.passedOn.end());
  return arguments;
}

/// The options that argumentsOf() does not know.
std::string passedOnHelp() {
  std::string text = "Passed on to DIR/launch.sh and the runtime:";
  raw_string_ostream os(text);
  auto line = [&](StringRef usage, StringRef help) {
    os << "\n  " << left_justify(usage, helpIndent - 2);
    for (char c : wrappedHelp(help))
      if (os << c; c == '\n')
        os.indent(helpIndent);
  };
#define HETERPLAN_RUNTIME_OPTION(usage, help) line(usage, help);
#include "RuntimeOptions.def"
  return os.str();
}

ExitStatus exitStatusOf(int launched) {
  return launched == 0 ? exitDone : launched == exitInfeasible ? exitInfeasible : exitUsage;
}

/// Runs `launcher` and prints the result of the runtime as JSON on stdout.
Expected<ExitStatus> runForJson(const std::string &launcher, std::vector<std::string> arguments) {
  ScratchFile result;
  if (std::error_code failure = createScratchFile("heterplan-run", "json", result.path))
    return Diagnostic(Diag::CannotWrite, {"", 0, 0, "heterplan run"}) << failure.message();
  arguments.insert(arguments.end(), {"--json", result.path.str().str()});
  Expected<int> status = launch(launcher, arguments, /*quiet=*/true);
  if (!status)
    return status.takeError();
  Expected<std::string> text = readFile(result.path);
  if (!text)
    return text.takeError();
  outs() << *text;
  return exitStatusOf(*status);
}

Expected<ExitStatus> run(const RunOptions &options) {
  Expected<std::vector<std::string>> arguments = argumentsOf(options);
  if (!arguments)
    return arguments.takeError();
  Expected<std::string> launcher = findLauncher(options.directory);
  if (!launcher)
    return launcher.takeError();
  if (options.printJson && options.json.empty())
    return runForJson(*launcher, std::move(*arguments));
  if (options.printJson)
    arguments->insert(arguments->end(), {"--json", options.json});
  Expected<int> status = launch(*launcher, *arguments, /*quiet=*/false);
  if (!status)
    return status.takeError();
  return exitStatusOf(*status);
}

} // namespace

void heterplan::addRun(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("run", "run the generated launcher on this machine");
  auto options = std::make_shared<RunOptions>();
  addArgument(*command, "DIR", options->directory, "directory that compile wrote");
  addText(*command, "--steps", options->steps, "N", "training steps in all");
  command->add_flag("--check", options->check,
                    "compare losses, gradients, parameters and optimizer state with one process");
  CLI::Option *json =
      command->add_option("--json", options->json, "write the result to FILE, or print it as JSON")
          ->type_name("[FILE]")
          ->expected(0, 1);
  command->allow_extras();
  command->footer(passedOnHelp());
  command->callback([options, command, json, &action] {
    options->passedOn = command->remaining();
    options->printJson = json->count() > 0;
    action = [options] { return run(*options); };
  });
}
