#include "BackgroundPlanning.h"
#include "CompileSearch.h"

#include "cost/Simulator.h"
#include "search/burst/Background.h"
#include "search/verify/Checker.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {
Expected<Problem> copyProblem(LayerGraph layers, const PlanningInputs &inputs,
                              const CostModel &costs, Samples batch) {
  Request request;
  request.globalBatch = batch;
  request.schedule = ScheduleChoice::Burst;
  request.iterationModel = IterationModel::Burst;
  request.optimizer = inputs.problem.request.optimizer;
  request.optimizerKernels = inputs.problem.request.optimizerKernels;
  request.precision = inputs.problem.request.precision;
  request.memoryFormat = inputs.problem.request.memoryFormat;
  request.batchNorm = inputs.problem.request.batchNorm;
  return Problem::create(std::move(layers), inputs.problem.cluster, costs, request);
}

/// The type of device that `plan` leaves idle longest, all together; of no gaps the first.
int idleType(const Plan &plan, const Cluster &cluster) {
  std::map<int, Seconds> idle;
  for (const IdleGap &gap : plan.idle)
    idle[cluster.typeIndex(gap.device)] += gap.duration;
  int result = cluster.typeIndex(plan.stages.front().replicas.front().devices.front());
  for (const auto &[type, duration] : idle)
    if (duration > idle[result])
      result = type;
  return result;
}

/// The plan of a copy for the idle devices of `plan`, checked.
Expected<Plan> checkedCopy(const Problem &problem, const Plan &plan,
                           std::vector<std::string> profiles) {
  Expected<Plan> copy = planCopy(problem, idleType(plan, problem.cluster));
  if (!copy)
    return copy;
  copy->profileFingerprints = std::move(profiles);
  Expected<std::vector<Check>> checks =
      checkPlan(*copy, problem.graph, problem.cluster, *problem.costs);
  if (!checks)
    return checks.takeError();
  copy->checks = std::move(*checks);
  for (const Check &check : copy->checks)
    if (!check.holds && check.name != "memory") // which is said beside the plan
      return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "--background"})
             << "the background job fails its check '" << check.name << "'";
  return copy;
}
} // namespace

Expected<std::optional<PlannedCopy>> addBackground(Plan &plan, const PlanningInputs &inputs,
                                                   const CompileOptions &options) {
  if (options.background.empty())
    return std::nullopt;
  Expected<BackgroundOptions> asked = readBackgroundOptions(options);
  if (!asked)
    return asked.takeError();
  Expected<Model> model = readModel(options.background, options.reading);
  if (!model)
    return model.takeError();
  const Request &request = inputs.problem.request;
  if (isHalf(request.precision))
    model->layers = underAutocast(std::move(model->layers));
  Expected<CostInputs> costs = readCosts(
      options.costs, model->layers, request.optimizer, request.precision,
      request.memoryFormat.value_or(MemoryFormat::ChannelsFirst), request.optimizerKernels);
  if (!costs)
    return costs.takeError();
  Expected<Problem> problem = copyProblem(model->layers, inputs, *costs->model, asked->batch);
  if (!problem)
    return problem.takeError();
  Expected<Plan> copy = checkedCopy(*problem, plan, costs->measured->fingerprints());
  if (!copy)
    return copy.takeError();
  Expected<Program> program = lower(plan, inputs.problem.graph, inputs.problem.cluster);
  Expected<Program> copyProgram = lower(*copy, problem->graph, problem->cluster);
  if (!program || !copyProgram)
    return joinErrors(program.takeError(), copyProgram.takeError());
  Expected<Simulation> simulation = simulate(*copyProgram);
  if (!simulation)
    return simulation.takeError();
  Expected<BackgroundJob> job = packBackground(
      plan, {*copy, *copyProgram, *program, inputs.problem.cluster, asked->maxSlowdown});
  if (!job)
    return job.takeError();
  plan.background = std::move(*job);
  if (plan.background->copies.empty())
    return std::nullopt;
  return PlannedCopy{std::move(model->graph), std::move(model->layers), std::move(*copy),
                     std::move(*copyProgram), std::move(simulation->timeline)};
}

} // namespace heterplan
