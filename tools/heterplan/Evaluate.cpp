// heterplan evaluate: prices a placement of the user's own, and says how far it is from the best.
#include "Commands.h"
#include "Options.h"
#include "PlanText.h"
#include "PlanningInputs.h"
#include "RequestOfPlan.h"
#include "Table.h"

#include "ir/PlanShards.h"
#include "ir/sharding/NotWithShards.h"
#include "search/Assess.h"
#include "search/placement/StatedPlacement.h"
#include "search/verify/Binding.h"
#include "search/verify/Checker.h"
#include "support/Files.h"
#include "support/Progress.h"
#include "support/Text.h"
#include "support/Yaml.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>

#include <cmath>

using namespace heterplan;
using namespace llvm;

namespace {

struct EvaluateOptions {
  std::string placement;
  CompileOptions compiling; // of the request and the search; `model` by --model
  bool json = false;
};

bool isPlan(StringRef path) { return path.endswith(".json") || sys::fs::is_directory(path); }

/// The fields of plan.json, and those of the assessment.
void writeJson(raw_ostream &os, const Assessment &assessment, const PlanLimits &limits) {
  PlanComparison comparison{std::nullopt, limits.binding, limits.bottleneckStage, std::nullopt};
  if (assessment.best)
    comparison.bestObjectiveValue = assessment.best->objectiveValue;
  if (assessment.change)
    comparison.change = assessment.change->change;
  os << toJson(assessment.plan, &comparison);
}

/// "12.5% better" or "as good".
std::string comparison(double own, double best) {
  double gap = std::abs(best - own) / std::abs(own);
  return gap < 1e-9 ? "as good" : fixed(100 * gap, 2) + "% better";
}

void printText(raw_ostream &os, const Assessment &assessment, const PlanLimits &limits) {
  const Plan &plan = assessment.plan;
  printPlan(os, plan, ChecksShown::Summary);
  os << "\nbest found     ";
  if (assessment.best)
    os << objectiveText(plan.objective, assessment.best->objectiveValue) << " by "
       << assessment.best->strategy << ", "
       << comparison(plan.objectiveValue, assessment.best->objectiveValue);
  else
    os << "none";
  if (assessment.isOutside)
    os << "; this placement is outside of the search space";
  if (assessment.best)
    os << "\nbound          no plan in the search space is better than "
       << objectiveText(plan.objective, assessment.best->lowerBound);
  os << "\nbottleneck     stage " << limits.bottleneckStage << " with "
     << readable(paceOf(plan, plan.stages[limits.bottleneckStage]))
     << " a micro-batch\nbinding        " << limits.binding << "\nbest change    ";
  if (assessment.change) {
    double value = assessment.change->objective;
    if (plan.objective == Objective::Throughput)
      value = double(plan.globalBatch.value()) / value;
    os << assessment.change->change << ": " << objectiveText(plan.objective, value) << '\n';
  } else {
    os << "no single one helps\n";
  }
}

/// Everything that evaluate reads except the placement.
struct Inputs {
  std::optional<Plan> plan; // where the placement is that of a plan
  PlanningInputs planning;
};

Expected<Inputs> readInputs(EvaluateOptions &options) {
  std::optional<Plan> stated, plan; // with devices, with a device for each group of them
  if (isPlan(options.placement)) {
    Expected<Plan> read = readPlan(options.placement);
    if (!read)
      return read.takeError();
    completeFrom(*read, options.compiling);
    stated = *read;
    read = withShardGroups(std::move(*read));
    if (!read)
      return read.takeError();
    plan = std::move(*read);
    stated->pins = plan->pins; // to a type, whatever the number of devices that share layers
  }
  Expected<Request> request = readRequest(options.compiling);
  if (!request)
    return request.takeError();
  if (request->schedule == ScheduleChoice::Burst ||
      request->iterationModel == IterationModel::Burst)
    return notSupported("evaluate of bursts");
  if (stated)
    completeSets(*stated, *request);
  Expected<PlanningInputs> planning = readPlanningInputs(options.compiling, *request);
  if (!planning)
    return planning.takeError();
  if (planning->problem.cluster.hasShardTypes())
    return notWithShards(NotWithShards::UnequalDegreesEvaluated);
  const int degree = planning->problem.cluster.shardDegree;
  if (stated && shardDegreeOf(*stated) != degree)
    return Diagnostic(Diag::StalePlan, {options.placement, 0, 0, ""})
           << shardDegreeOf(*stated) << " devices share each layer of the plan, and " << degree
           << " those of the model";
  if (!plan && degree > 1)
    return notWithShards(NotWithShards::OwnPlacement);
  return Inputs{std::move(plan), std::move(*planning)};
}

Expected<Placement> readPlacement(const EvaluateOptions &options, const Inputs &inputs) {
  const Problem &problem = inputs.planning.problem;
  if (inputs.plan)
    return placementOf(*inputs.plan, problem);
  Expected<std::string> text = readFile(options.placement, largestYaml);
  if (!text)
    return text.takeError();
  return parsePlacement(*text, options.placement, problem);
}

/// With the checks of its plan.
Expected<Assessment> assessAndCheck(PlanningInputs &inputs, const Placement &placement,
                                    StringRef strategy) {
  const Problem &problem = inputs.problem;
  Progress progress = Progress::onStandardError("searching for the best plan");
  inputs.searching.progress = [&](double done, double) { progress.update(done, ""); };
  Expected<Assessment> assessment = assess(problem, placement, strategy, inputs.searching);
  if (!assessment)
    return assessment;
  assessment->plan.profileFingerprints = inputs.costs.measured->fingerprints();
  Expected<std::vector<Check>> checks =
      checkPlan(assessment->plan, problem.graph, problem.cluster, *problem.costs);
  if (!checks)
    return checks.takeError();
  assessment->plan.checks = std::move(*checks);
  return assessment;
}

Expected<ExitStatus> evaluate(EvaluateOptions options) {
  Expected<Inputs> inputs = readInputs(options);
  if (!inputs)
    return inputs.takeError();
  Expected<Placement> placement = readPlacement(options, *inputs);
  if (!placement)
    return placement.takeError();
  Expected<Assessment> assessment =
      assessAndCheck(inputs->planning, *placement, options.compiling.strategy);
  if (!assessment)
    return assessment.takeError();
  const Problem &problem = inputs->planning.problem;
  Expected<PlanLimits> limits =
      limitsOf(assessment->plan, problem.graph, problem.cluster, *problem.costs);
  if (!limits)
    return limits.takeError();
  assessment->plan = withShardDevices(std::move(assessment->plan), problem.cluster);
  (options.json ? writeJson : printText)(outs(), *assessment, *limits);
  bool holds = all_of(assessment->plan.checks, [](const Check &check) { return check.holds; });
  return holds ? exitDone : exitInfeasible;
}

} // namespace

void heterplan::addEvaluate(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("evaluate", "price a placement of your own; how far it is from the best");
  auto options = std::make_shared<EvaluateOptions>();
  addArgument(*command, "PLACEMENT", options->placement,
              "a plan.json, its directory, or a short YAML file (docs/formats.md)");
  addRequestOptions(*command, options->compiling);
  addCostOptions(*command, options->compiling.costs);
  addText(*command, "--model", options->compiling.model, "FILE", "a .onnx or .layers.json file")
      ->required();
  addReadingOptions(*command, options->compiling.reading);
  beginGroup(*command, "Output");
  command->add_flag("--json", options->json, "print the fields of a plan and the comparison");
  command->callback([options, &action] { action = [options] { return evaluate(*options); }; });
}
