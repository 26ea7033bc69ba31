// heterplan replan: a plan for a changed cluster, with a price on the state that has to move.
#include "Commands.h"
#include "Fallbacks.h"
#include "Options.h"
#include "PlanText.h"
#include "PlanWriting.h"
#include "ReplanCandidates.h"
#include "ReplanText.h"
#include "RequestOfPlan.h"
#include "TensorParallel.h"

#include "ir/PlanShards.h"
#include "ir/sharding/NotWithShards.h"
#include "support/Files.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct ReplanOptions {
  std::string plan, horizon, fallbacks;
  CompileOptions compiling; // `model` by --model
  bool json = false;
};

/// The degree that `options` ask for, or else the plan of `before`.
void completeDegree(const Plan &before, CompileOptions &options) {
  if (!options.tensorParallel.empty())
    options.dividesByStage = false;
  else if (before.comparesDegrees)
    options.tensorParallel = "auto";
  else
    options.tensorParallel = std::to_string(shardDegreeOf(before));
}

/// The inputs of a plan like `before` on the cluster of `options`.
Expected<PlanningSources> readInputs(const Plan &before, ReplanOptions &options) {
  CompileOptions &compiling = options.compiling;
  if (hasUnequalDegrees(before) || compiling.tensorParallel == degreeByStage)
    return notWithShards(NotWithShards::UnequalDegreesReplanned);
  completeDegree(before, compiling);
  completeFrom(before, compiling);
  Expected<Request> request = readRequest(compiling);
  if (!request)
    return request.takeError();
  if (before.schedule == Schedule::Burst || request->schedule == ScheduleChoice::Burst)
    return notSupported("replan of bursts");
  Expected<Plan> groups = withShardGroups(before);
  if (!groups)
    return groups.takeError();
  Plan stated = before;
  stated.pins = groups->pins; // to a type, whatever the number of devices that share layers
  completeSets(stated, *request);
  Expected<PlanningSources> sources = readPlanningSources(compiling, *request);
  if (!sources)
    return sources.takeError();
  const LayerGraph &layers = sources->model.layers;
  if (layers.fingerprint != before.modelFingerprint && layers.model != before.model)
    return Diagnostic(Diag::StalePlan, {options.plan, 0, 0, ""})
           << "the plan is for the model '" << before.model << "', and " << compiling.model
           << " is the model '" << layers.model << "'";
  return sources;
}

Expected<ExitStatus> infeasible(const ReplanOptions &options) {
  if (options.json)
    outs() << "{\"infeasible\": true}\n";
  else
    outs() << "no plan found on this cluster: 'heterplan compile' with the same options says why\n";
  return exitInfeasible;
}

Expected<ExitStatus> replan(ReplanOptions options) {
  Expected<int64_t> horizon = wholeOption("--horizon", options.horizon, 1000, 1, 1'000'000'000);
  if (!horizon)
    return horizon.takeError();
  Expected<int64_t> fallbacks = wholeOption("--fallbacks", options.fallbacks, 0, 1, 1000);
  if (!fallbacks)
    return fallbacks.takeError();
  if (*fallbacks > 0 && (!options.compiling.directory.empty() || options.json))
    return usageError("--fallbacks")
           << "the plans go to the directory of PLAN; leave out -o and --json";
  Expected<Plan> before = readPlanAt(options.plan);
  if (!before)
    return before.takeError();
  if (!options.compiling.directory.empty())
    if (Error error = checkOutput(options.compiling.directory, options.compiling.force))
      return error;
  Expected<PlanningSources> sources = readInputs(*before, options);
  if (!sources)
    return sources.takeError();
  const Replanning asked{*before, options.compiling, *sources, *horizon};
  if (*fallbacks > 0)
    return prepareFallbacks(asked, planDirectory(options.plan), *fallbacks);
  Expected<std::optional<ReplanCandidates>> found = findReplanCandidates(asked);
  if (!found)
    return found.takeError();
  if (!*found)
    return infeasible(options);
  const ReplanCandidate &chosen = (*found)->best();
  const PlanningInputs &inputs = chosen.own->inputs;
  Expected<PlanLimits> limits = limitsOf(chosen.plan, inputs);
  if (!limits)
    return limits.takeError();
  if (!options.compiling.directory.empty())
    if (Error error =
            writePlan(chosen.plan, inputs, options.compiling, {{}, {}, nullptr, &*limits}))
      return error;
  if (options.json) {
    printReplanJson(**found, *horizon);
    return exitDone;
  }
  showPlan(chosen.plan, inputs.problem.cluster, options.compiling, &*limits);
  printReplan(*before, **found, *horizon);
  if (!options.compiling.directory.empty())
    outs() << "\nwrote " << options.compiling.directory << "; next:\n  heterplan run "
           << options.compiling.directory << " --resume --checkpoint-dir "
           << planDirectory(options.plan) << "/checkpoints\n";
  return exitDone;
}

} // namespace

void heterplan::addReplan(CLI::App &root, Action &action) {
  CLI::App *command =
      root.add_subcommand("replan", "plan for a changed cluster, with a price on state that moves");
  auto options = std::make_shared<ReplanOptions>();
  addArgument(*command, "PLAN", options->plan, "the plan of before: plan.json or its directory");
  beginGroup(*command, "Input");
  addText(*command, "--model", options->compiling.model, "FILE",
          "the .onnx or .layers.json file of the plan")
      ->required();
  addCostOptions(*command, options->compiling.costs);
  addReadingOptions(*command, options->compiling.reading);
  addText(*command, "--horizon", options->horizon, "STEPS",
          "steps that are still to be trained, over which moving has to pay (1000)");
  addRequestOptions(*command, options->compiling);
  addDegreeOptions(*command, options->compiling, "as PLAN was made");
  beginGroup(*command, "Output");
  addText(*command, "-o,--output", options->compiling.directory, "DIR",
          "directory for the plan (default: only printed)");
  addText(*command, "--fallbacks", options->fallbacks, "N",
          "prepare plans for the loss of 1 to N nodes of each group, for 'run --elastic'");
  command->add_flag("--force", options->compiling.force,
                    "write among files that heterplan did not write");
  command->add_flag("--json", options->json, "print the candidates as JSON");
  command->callback([options, &action] { action = [options] { return replan(*options); }; });
}
