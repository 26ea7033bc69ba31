// heterplan evaluate: prices a placement of the user's own, and says how far it is from the best.
#include "Commands.h"
#include "CompileOptions.h"
#include "PlanText.h"
#include "Table.h"

#include "search/Assess.h"
#include "search/placement/StatedPlacement.h"
#include "search/verify/Checker.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Progress.h"
#include "support/Text.h"
#include "support/Yaml.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace heterplan;
using namespace llvm;

namespace {

struct EvaluateOptions {
  std::string placement;
  CompileOptions compiling; // of the request and the search; `model` by --model
  bool json = false;
};

/// What holds the placement back.
struct Limits {
  std::string binding;     // name of the check that fails or is closest to it, or "bottleneck"
  int bottleneckStage = 0; // with the longest forward and backward pass
};

std::string exactly(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.17g", value);
  return text;
}

/// Lets `options` have what they leave open from `plan`.
void completeFrom(const Plan &plan, CompileOptions &options) {
  auto complete = [](std::string &option, const std::string &value) {
    if (option.empty())
      option = value;
  };
  complete(options.batch, std::to_string(plan.globalBatch.value()));
  complete(options.objective, nameOf(plan.objective));
  complete(options.optimizer, nameOf(plan.optimizer));
  complete(options.precision, nameOf(plan.precision));
  complete(options.iterationModel, nameOf(plan.iterationModel));
  if (plan.minThroughput > SamplesPerSecond(0))
    complete(options.minThroughput, exactly(plan.minThroughput.value()));
  if (plan.maxCostPerHour > DollarsPerHour(0))
    complete(options.maxCostPerHour, exactly(plan.maxCostPerHour.value()));
}

/// Pins and sets of layers, likewise.
void completeSets(const Plan &plan, Request &request) {
  if (request.pins.empty())
    request.pins = plan.pins;
  if (request.colocations.empty())
    request.colocations = plan.colocations;
  if (request.separations.empty())
    request.separations = plan.separations;
}

bool isPlan(StringRef path) { return path.endswith(".json") || sys::fs::is_directory(path); }

/// The stage with the longest passes.
int bottleneckOf(const Plan &plan) {
  auto slowest =
      std::max_element(plan.stages.begin(), plan.stages.end(),
                       [](const Stage &a, const Stage &b) { return a.time() < b.time(); });
  return slowest->id;
}

/// By how much of its limit `check` holds; infinite where it has no limit.
double relativeSlack(const Check &check, const Plan &plan, const Cluster &cluster) {
  double limit = 0;
  if (check.name == "memory")
    for (const DeviceType &type : cluster.types)
      limit = std::max(limit, type.memory.value());
  if (check.name == "throughput-floor")
    limit = plan.minThroughput.value();
  if (check.name == "budget")
    limit = plan.maxCostPerHour.value();
  return limit > 0 ? check.slack / limit : std::numeric_limits<double>::infinity();
}

Limits limitsOf(const Plan &plan, const Cluster &cluster) {
  constexpr double close = 0.01;
  Limits result{"bottleneck", bottleneckOf(plan)};
  double least = close;
  for (const Check &check : plan.checks) {
    if (!check.holds)
      return {check.name, result.bottleneckStage};
    if (double slack = relativeSlack(check, plan, cluster); slack < least) {
      least = slack;
      result.binding = check.name;
    }
  }
  return result;
}

/// The fields of plan.json, and those of the assessment.
void writeJson(raw_ostream &os, const Assessment &assessment, const Limits &limits) {
  std::string plan = toJson(assessment.plan);
  os << StringRef(plan).rtrim().drop_back().rtrim();
  auto field = [&](StringRef name) -> raw_ostream & { return os << ",\n \"" << name << "\": "; };
  if (assessment.best)
    field("bestObjectiveValue") << exactly(assessment.best->objectiveValue);
  field("binding");
  writeJsonString(os, limits.binding);
  field("bottleneckStage") << limits.bottleneckStage;
  if (assessment.change) {
    field("change");
    writeJsonString(os, assessment.change->change);
  }
  os << "\n}\n";
}

/// "12.5% better" or "as good".
std::string comparison(double own, double best) {
  double gap = std::abs(best - own) / std::abs(own);
  return gap < 1e-9 ? "as good" : fixed(100 * gap, 2) + "% better";
}

void printText(raw_ostream &os, const Assessment &assessment, const Limits &limits) {
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
    os << "; this placement is outside of what is searched";
  os << "\nbottleneck     stage " << limits.bottleneckStage << " with "
     << readable(plan.stages[limits.bottleneckStage].time()) << " a micro-batch\nbinding        "
     << limits.binding << "\nbest change    ";
  if (assessment.change) {
    double value = assessment.change->objective;
    if (plan.objective == Objective::Throughput)
      value = double(plan.globalBatch.value()) / value;
    os << assessment.change->change << ": " << objectiveText(plan.objective, value) << '\n';
  } else {
    os << "no single one helps\n";
  }
}

/// What the placement is evaluated under: everything that is read but the placement.
struct Inputs {
  std::optional<Plan> plan; // where the placement is that of a plan
  CostInputs costs;
  Problem problem;
  SearchOptions searching;
};

Expected<Inputs> readInputs(EvaluateOptions &options) {
  std::optional<Plan> plan;
  if (isPlan(options.placement)) {
    Expected<Plan> read = readPlan(options.placement);
    if (!read)
      return read.takeError();
    plan = std::move(*read);
    completeFrom(*plan, options.compiling);
  }
  Expected<Request> request = readRequest(options.compiling);
  if (!request)
    return request.takeError();
  if (request->schedule == ScheduleChoice::Burst)
    return notSupported("evaluate --schedule burst");
  if (plan)
    completeSets(*plan, *request);
  Expected<SearchOptions> searching = readSearchOptions(options.compiling);
  if (!searching)
    return searching.takeError();
  Expected<Model> model = readModel(options.compiling.model, options.compiling.reading);
  if (!model)
    return model.takeError();
  Expected<CostInputs> costs =
      readCosts(options.compiling.costs, model->layers, request->optimizer, request->precision);
  if (!costs)
    return costs.takeError();
  Expected<Problem> problem =
      Problem::create(std::move(model->layers), costs->cluster, *costs->model, *request);
  if (!problem)
    return problem.takeError();
  return Inputs{std::move(plan), std::move(*costs), std::move(*problem), *searching};
}

Expected<Placement> readPlacement(const EvaluateOptions &options, const Inputs &inputs) {
  if (inputs.plan)
    return placementOf(*inputs.plan, inputs.problem);
  Expected<std::string> text = readFile(options.placement, largestYaml);
  if (!text)
    return text.takeError();
  return parsePlacement(*text, options.placement, inputs.problem);
}

Expected<ExitStatus> evaluate(EvaluateOptions options) {
  Expected<Inputs> inputs = readInputs(options);
  if (!inputs)
    return inputs.takeError();
  Expected<Placement> placement = readPlacement(options, *inputs);
  if (!placement)
    return placement.takeError();
  const Problem &problem = inputs->problem;
  Progress progress = Progress::onStandardError("searching for the best plan");
  inputs->searching.started = std::chrono::steady_clock::now();
  inputs->searching.progress = [&](double done, double) { progress.update(done, ""); };
  Expected<Assessment> assessment =
      assess(problem, *placement, options.compiling.strategy, inputs->searching);
  if (!assessment)
    return assessment.takeError();
  Plan &plan = assessment->plan;
  plan.profileFingerprints = inputs->costs.measured->fingerprints();
  Expected<std::vector<Check>> checks =
      checkPlan(plan, problem.graph, problem.cluster, *problem.costs);
  if (!checks)
    return checks.takeError();
  plan.checks = std::move(*checks);
  (options.json ? writeJson : printText)(outs(), *assessment, limitsOf(plan, problem.cluster));
  bool holds = all_of(plan.checks, [](const Check &check) { return check.holds; });
  return holds ? exitDone : exitInfeasible;
}

} // namespace

void heterplan::addEvaluate(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("evaluate", "price a placement of your own; how far it is from the best");
  auto options = std::make_shared<EvaluateOptions>();
  addArgument(*command, "PLACEMENT", options->placement,
              "a plan.json, its directory, or a short YAML file (docs/formats.md)");
  addText(*command, "--model", options->compiling.model, "FILE", "a .onnx or .layers.json file")
      ->required();
  addCostOptions(*command, options->compiling.costs);
  addRequestOptions(*command, options->compiling);
  addReadingOptions(*command, options->compiling.reading);
  command->add_flag("--json", options->json, "print the fields of a plan and the comparison");
  command->callback([options, &action] { action = [options] { return evaluate(*options); }; });
}
