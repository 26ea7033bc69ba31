// heterplan verify: checks every constraint of a plan against model and cluster, independently.
#include "Commands.h"
#include "Inputs.h"
#include "PlanText.h"
#include "Table.h"

#include "search/verify/Checker.h"
#include "support/JsonWriter.h"

using namespace heterplan;
using namespace llvm;

namespace {

struct VerifyOptions {
  std::string plan, model;
  CostOptions costs;
  ModelOptions reading;
  bool json = false;
};

bool allHold(const std::vector<Finding> &findings) {
  return std::all_of(findings.begin(), findings.end(),
                     [](const Finding &finding) { return finding.check.holds; });
}

void printText(const std::vector<Finding> &findings) {
  Table table({"check", "result", ">slack"});
  for (const Finding &finding : findings)
    table.row(
        {finding.check.name, finding.check.holds ? "holds" : "FAILS", slackText(finding.check)});
  table.print(outs());
  for (const Finding &finding : findings)
    if (!finding.because.empty())
      outs() << finding.check.name << ": " << finding.because << '\n';
  outs() << (allHold(findings) ? "\nthe plan holds\n" : "\nthe plan does not hold\n");
}

void printJson(const std::vector<Finding> &findings) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("holds", allHold(findings));
    json.attributeArray("checks", [&] {
      for (const Finding &finding : findings)
        json.object([&] {
          json.attribute("name", finding.check.name);
          json.attribute("holds", finding.check.holds);
          json.attribute("slack", finding.check.slack);
          json.attribute("unit", finding.check.unit);
          if (!finding.because.empty())
            json.attribute("because", finding.because);
        });
    });
  });
}

Expected<ExitStatus> verify(const VerifyOptions &options) {
  Expected<PlanInputs> inputs =
      readPlanInputs(options.plan, options.model, options.reading, options.costs);
  if (!inputs)
    return inputs.takeError();
  Expected<std::vector<Finding>> findings =
      examinePlan(inputs->plan, inputs->graph, inputs->costs.cluster, *inputs->costs.model);
  if (!findings)
    return findings.takeError();
  (options.json ? printJson : printText)(*findings);
  return allHold(*findings) ? exitDone : exitInfeasible;
}

} // namespace

void heterplan::addVerify(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("verify", "check every constraint of a plan, with slack");
  auto options = std::make_shared<VerifyOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it");
  addText(*command, "--model", options->model, "FILE", "the model that was compiled")->required();
  addCostOptions(*command, options->costs);
  addReadingOptions(*command, options->reading);
  command->add_flag("--json", options->json, "print the checks as JSON");
  command->callback([options, &action] { action = [options] { return verify(*options); }; });
}
