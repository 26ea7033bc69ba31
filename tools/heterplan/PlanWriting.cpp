#include "PlanWriting.h"

#include "PlanSummary.h"
#include "PlanText.h"

#include "codegen/Resources.h"
#include "cost/Simulator.h"
#include "ir/PlanShards.h"
#include "search/verify/Binding.h"
#include "search/verify/Checker.h"
#include "search/verify/bound/OptimalityBound.h"

using namespace heterplan;
using namespace llvm;

namespace {
/// The text of a certificate; "" if there is none. It takes time that a limit leaves no room for.
std::string certificateOf(const Plan &plan, const Problem &problem, const CompileOptions &options,
                          int threads) {
  if (!options.timeLimit.empty() || plan.interrupted)
    return "";
  OptimalityBound bound(plan, problem.graph, problem.cluster, *problem.costs);
  return bound.obstacle().empty() ? toJson(bound.certify(threads)) : "";
}

/// The layers that the stages of `written` send tensors between: those of its degree, or of the
/// whole model if degrees are unequal.
const LayerGraph &layersOf(const Plan &written, const PlanningInputs &inputs) {
  const ModelShard *shard = nullptr;
  if (inputs.divided && !hasUnequalDegrees(written))
    shard = inputs.divided->find(shardDegreeOf(written));
  return shard ? shard->layers : inputs.problem.graph;
}

/// The program of `plan` with a rank for each device.
Expected<Program> programOf(const Plan &plan, const LayerGraph &layers, const Cluster &cluster) {
  Expected<Program> program = lower(plan, layers, cluster);
  if (program)
    *program = withShardRanks(std::move(*program), cluster);
  return program;
}
} // namespace

Error heterplan::writePlan(const Plan &plan, const PlanningInputs &inputs,
                           const CompileOptions &options, const Beside &beside) {
  const Problem &problem = inputs.problem;
  Expected<std::string> runtime = findRuntime(executablePath());
  if (!runtime)
    return runtime.takeError();
  Plan written = withShardDevices(plan, problem.cluster);
  const LayerGraph &layers = layersOf(written, inputs);
  Expected<Program> program = programOf(plan, layers, problem.cluster);
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  std::vector<AlternativePlan> alternatives = beside.alternatives.vec();
  for (AlternativePlan &each : alternatives)
    each.plan = withShardDevices(std::move(each.plan), problem.cluster);
  const bool namesDevices = problem.cluster.shardDegree == 1 && !problem.cluster.hasShardTypes();
  Package package{written,
                  layers,
                  *program,
                  simulation->timeline,
                  inputs.graph ? &*inputs.graph : nullptr,
                  *runtime,
                  beside.front,
                  namesDevices ? &problem.cluster : nullptr,
                  alternatives,
                  beside.limits};
  const bool isDivided = inputs.divided && shardDegreeOf(written) > 1;
  package.divided = isDivided ? &*inputs.divided : nullptr;
  package.threads = inputs.searching.threads;
  package.copiesWeights = !options.noWeights;
  package.certificate = certificateOf(plan, problem, options, package.threads);
  std::optional<Package> background;
  if (const PlannedCopy *copy = beside.copy) {
    background.emplace(Package{copy->plan, copy->layers, copy->program, copy->timeline,
                               copy->operators ? &*copy->operators : nullptr, *runtime});
    background->copiesWeights = package.copiesWeights;
    package.background = &*background;
  }
  return writePackage(options.directory, package, options.force);
}

void heterplan::showPlan(const Plan &grouped, const Cluster &cluster, const CompileOptions &options,
                         const PlanLimits *limits) {
  const Plan plan = withShardDevices(grouped, cluster);
  if (options.json)
    outs() << toJson(plan);
  else if (options.verbose || !limits)
    printPlan(outs(), plan, ChecksShown::Summary);
  else
    printSummary(outs(), plan, *limits);
}

Expected<PlanLimits> heterplan::limitsOf(const Plan &plan, const PlanningInputs &inputs) {
  const Problem &problem = inputs.problem;
  return limitsOf(plan, problem.graph, problem.cluster, *problem.costs);
}

Expected<const char *> heterplan::failedCheck(Plan &plan, const PlanningInputs &inputs) {
  plan.profileFingerprints = inputs.costs.measured->fingerprints();
  const Problem &problem = inputs.problem;
  Expected<std::vector<Check>> checks =
      checkPlan(plan, problem.graph, problem.cluster, *problem.costs);
  if (!checks)
    return checks.takeError();
  plan.checks = std::move(*checks);
  for (const Check &check : plan.checks)
    if (!check.holds)
      return check.name.c_str();
  return nullptr;
}

Expected<bool> heterplan::passesChecks(Plan &plan, const PlanningInputs &inputs,
                                       const CompileOptions &options) {
  Expected<const char *> failed = failedCheck(plan, inputs);
  if (!failed)
    return failed.takeError();
  if (!*failed)
    return true;
  showPlan(plan, inputs.problem.cluster, options);
  errs() << "heterplan: internal error: the plan fails its check '" << *failed
         << "'; nothing is written; please report it with the model and the cluster\n";
  return false;
}
