#include "SimulateBalance.h"

#include "Inputs.h"
#include "Options.h"
#include "Table.h"

#include "ir/FileForms.h"
#include "search/balance/BalanceSimulation.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Statistics.h"

#include <CLI/CLI.hpp>

using namespace llvm;

namespace heterplan {

namespace {
constexpr const char *defaultPredictor = "-last"; // of lb-bsp; as in the runtime

struct PolicyResult {
  std::string policy;
  BalanceResult result;

  Seconds mean() const { return result.total() / double(result.iterations.size()); }
};

std::string kindsOfTraces() {
  std::string names;
  for (const GeneratedTrace &kind : generatedTraces())
    names += std::string(names.empty() ? "" : ", ") + kind.name;
  return names;
}

bool isGenerated(StringRef name) {
  return any_of(generatedTraces(), [&](const GeneratedTrace &kind) { return name == kind.name; });
}

Expected<SpeedTrace> traceOf(const BalanceCommand &options, size_t workers) {
  Expected<int64_t> iterations = wholeOption("--iterations", options.iterations, 200, 1, 1'000'000);
  if (!iterations)
    return iterations.takeError();
  Expected<int64_t> seed = wholeOption("--seed", options.seed, 0, 0, int64_t(1) << 62);
  if (!seed)
    return seed.takeError();
  if (isGenerated(options.speeds))
    return generateTrace(options.speeds, int(workers), int(*iterations), uint64_t(*seed));
  for (const auto &[name, given] :
       {std::pair("--iterations", &options.iterations), {"--seed", &options.seed}})
    if (!given->empty())
      return usageError(name) << "is of traces that are drawn: " << kindsOfTraces();
  return readSpeedTrace(options.speeds);
}

Expected<BalanceOptions> balanceOptions(const BalanceCommand &options) {
  BalanceOptions result;
  Expected<int64_t> every =
      wholeOption("--balance-every", options.every, result.every, 1, 1'000'000);
  if (!every)
    return every.takeError();
  Expected<int64_t> staleness =
      wholeOption("--staleness", options.staleness, result.staleness, 0, 1'000'000);
  if (!staleness)
    return staleness.takeError();
  Expected<double> hysteresis =
      realOption("--balance-hysteresis", options.hysteresis, result.hysteresis, 0, true);
  if (!hysteresis)
    return hysteresis.takeError();
  if (*hysteresis >= 1)
    return usageError("--balance-hysteresis") << "'" << options.hysteresis << "' is not below 1";
  return BalanceOptions{int(*every), *hysteresis, int(*staleness)};
}

/// The one that is asked for, or all that can run the plan.
Expected<std::vector<std::string>> policiesOf(const BalanceCommand &options,
                                              const Program &program) {
  std::vector<const char *> names;
  for (const BalancePolicy &policy : balancePolicies())
    names.push_back(policy.name);
  std::vector<std::string> chosen;
  if (options.balance.empty()) {
    for (StringRef name : names)
      if (program.stages == 1 || (name != "asp" && name != "ssp"))
        chosen.push_back(name.str());
    return chosen;
  }
  std::string asked =
      options.balance == "lb-bsp" ? options.balance + defaultPredictor : options.balance;
  Expected<size_t> index = choiceOption("--balance", asked, names);
  if (!index)
    return index.takeError();
  chosen.push_back(names[*index]);
  return chosen;
}

void printText(const std::vector<PolicyResult> &results, const SpeedTrace &trace, Seconds planned) {
  Table table({"shares", ">iteration", ">median", ">against the first", ">decisions"});
  Seconds first = results.front().mean();
  for (const PolicyResult &each : results) {
    std::vector<double> times;
    for (Seconds time : each.result.iterations)
      times.push_back(time.value());
    table.row({each.policy, readable(each.mean()), readable(Seconds(median(std::move(times)))),
               percent(each.mean() / first - 1), std::to_string(each.result.decisions.size())});
  }
  outs() << trace.iterations.size() << " iterations of " << trace.workers.size()
         << " workers; the plan says " << readable(planned) << " an iteration\n\n";
  table.print(outs());
}

void printDecision(JsonWriter &json, const ShareDecision &decision) {
  json.object([&] {
    json.attribute("step", decision.iteration);
    json.attribute("stage", decision.stage);
    json.attributeArray("shares", [&] {
      for (int64_t share : decision.shares)
        json.value(share);
    });
    json.attribute("beforeSeconds", decision.before.value());
    json.attribute("seconds", decision.after.value());
  });
}

void printJson(const std::vector<PolicyResult> &results, const SpeedTrace &trace, Seconds planned) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("workers", trace.workers.size());
    json.attribute("iterations", trace.iterations.size());
    json.attribute("plannedSeconds", planned.value());
    json.attributeArray("policies", [&] {
      for (const PolicyResult &each : results)
        json.object([&] {
          json.attribute("policy", each.policy);
          json.attribute("iterationSeconds", each.mean().value());
          json.attribute("totalSeconds", each.result.total().value());
          json.attributeArray("stepSeconds", [&] {
            for (Seconds time : each.result.iterations)
              json.value(time.value());
          });
          json.attributeArray("decisions", [&] {
            for (const ShareDecision &decision : each.result.decisions)
              printDecision(json, decision);
          });
        });
    });
  });
}
} // namespace

bool BalanceCommand::any() const {
  return !(speeds + balance + iterations + seed + writeSpeeds + every + hysteresis + staleness)
              .empty();
}

void addBalanceOptions(CLI::App &command, BalanceCommand &options) {
  std::string policies;
  for (const BalancePolicy &policy : balancePolicies())
    policies += std::string(policies.empty() ? "" : ", ") + policy.name;
  addText(command, "--speeds", options.speeds, "TRACE",
          "trace of worker speeds: a CSV file, or a random one: " + kindsOfTraces());
  addText(command, "--balance", options.balance, "NAME",
          "policy by which workers share the batch (default: all of them): " + policies);
  addText(command, "--iterations", options.iterations, "N", "iterations of a random trace (200)");
  addText(command, "--seed", options.seed, "N", "seed of a random trace (0)");
  addText(command, "--write-speeds", options.writeSpeeds, "FILE", "write the trace");
  addText(command, "--balance-every", options.every, "N",
          "iterations between two barriers at which shares may change (5)");
  addText(command, "--balance-hysteresis", options.hysteresis, "X",
          "fraction of the slowest time that a change must save (0.03)");
  addText(command, "--staleness", options.staleness, "N",
          "mini-batches that a worker may be ahead with ssp (3)");
}

Expected<ExitStatus> simulateBalanced(const BalanceCommand &command, const std::string &directory,
                                      bool json) {
  if (command.speeds.empty())
    return usageError("--speeds") << "is needed: a CSV file, or one of " << kindsOfTraces();
  Expected<BalanceOptions> options = balanceOptions(command);
  if (!options)
    return options.takeError();
  Expected<Program> program = readProgram(directory);
  if (!program)
    return program.takeError();
  Expected<Plan> plan = readPlanAt(directory);
  if (!plan)
    return plan.takeError();
  Expected<std::vector<std::string>> policies = policiesOf(command, *program);
  if (!policies)
    return policies.takeError();
  Expected<SpeedTrace> trace = traceOf(command, program->ranks.size());
  if (!trace)
    return trace.takeError();
  Expected<BalanceProblem> problem = BalanceProblem::create(*plan, *program, *trace, *options);
  if (!problem)
    return problem.takeError();
  std::vector<PolicyResult> results;
  for (const std::string &policy : *policies) {
    Expected<BalanceResult> result = simulateBalance(*problem, policy);
    if (!result)
      return result.takeError();
    results.push_back({policy, std::move(*result)});
  }
  if (!command.writeSpeeds.empty())
    if (Error error = writeFile(command.writeSpeeds, toCsv(*trace)))
      return error;
  (json ? printJson : printText)(results, *trace, program->predictedIteration);
  return exitDone;
}

} // namespace heterplan
