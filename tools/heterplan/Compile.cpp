// heterplan compile: model and cluster to a plan that can be run.
#include "AlternativePlanning.h"
#include "AlternativesText.h"
#include "BackgroundPlanning.h"
#include "Commands.h"
#include "CompileSearch.h"
#include "CompileText.h"
#include "DegreePlanning.h"
#include "InfeasibleText.h"
#include "OptionChoices.h"
#include "Options.h"
#include "ParetoText.h"
#include "PlanText.h"
#include "PlanWriting.h"
#include "ProfileText.h"
#include "TensorParallel.h"

#include "ir/PlanShards.h"
#include "search/Orders.h"
#include "search/Pareto.h"
#include "search/explain/Explain.h"
#include "search/problem/MicroBatchCounts.h"
#include "search/verify/AssignmentProof.h"
#include "support/JsonWriter.h"
#include "support/Progress.h"

#include <CLI/CLI.hpp>

#include <atomic>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>

using namespace heterplan;
using namespace llvm;

namespace {

using Inputs = PlanningInputs;

Expected<PlanningSources> readSources(const CompileOptions &options) {
  Expected<Request> request = readRequest(options);
  if (!request)
    return request.takeError();
  if (Error error = checkOutput(options.directory, options.force)) // not after a long search
    return error;
  return readPlanningSources(options, *request);
}

std::atomic<bool> interrupted;

/// Ctrl-C ends the search with the best plan so far; a second one ends the program.
void interrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

/// The order of the layers that is asked for. Strategies other than `auto` keep the given one,
/// which their publications have.
Expected<OrderChoice> readOrderChoice(const CompileOptions &options) {
  OrderChoice order = options.strategy == "auto" ? OrderChoice::Auto : OrderChoice::Given;
  if (Error error = readChoice("--layer-order", options.layerOrder, order))
    return error;
  return order;
}

/// The part of the time for the search for the plan, which leaves some for alternatives if they are
/// asked for.
Expected<double> shareOfPlan(const CompileOptions &options) {
  constexpr double share = 0.6;
  Expected<int> alternatives = readAlternativeCount(options);
  if (!alternatives)
    return alternatives.takeError();
  return *alternatives > 0 ? share : 1;
}

/// The search for the plan. `order`: Auto, or the order of the inputs.
Expected<BestOrder> plan(const Inputs &inputs, const CompileOptions &options, OrderChoice order) {
  Expected<double> share = shareOfPlan(options);
  if (!share)
    return share.takeError();
  Progress progress = Progress::onStandardError("planning");
  SearchOptions searching = inputs.searching;
  std::signal(SIGINT, interrupt);
  searching.stop = &interrupted;
  searching.deadline = searching.deadline.part(*share);
  searching.progress = [&](double done, double best) {
    progress.update(done, bestText(inputs.problem.request, best));
  };
  if (order == OrderChoice::Auto)
    return searchOrders(inputs.problem, options.strategy, searching);
  Expected<SearchOutcome> outcome = search(inputs.problem, options.strategy, searching);
  if (!outcome)
    return outcome.takeError();
  return BestOrder{std::move(*outcome), std::nullopt};
}

/// Says that there is no plan, and not why.
Expected<ExitStatus> reportNone(const SearchOutcome *outcome, const CompileOptions &options) {
  Explanation none;
  const bool isProven = outcome && outcome->isProven();
  errs() << "note: "
         << (isProven ? "no plan of the searched space keeps" : "no plan was found that keeps")
         << " all limits; the reason is not looked for where stages may have unequal degrees; "
            "--tensor-parallel 1 explains it for whole layers\n";
  if (options.json)
    writeInfeasible(outs(), none, outcome ? outcome->space : SearchedSpace());
  return exitInfeasible;
}

/// Says why there is no plan; an answer, so it goes to stdout. `outcome`: of the search that found
/// none, where there was one. `work`: that was spent; explaining takes at most ten times as much.
Expected<ExitStatus> reportInfeasible(const Inputs &inputs, const CompileOptions &options,
                                      int64_t work, const SearchOutcome *outcome = nullptr) {
  if (inputs.problem.cluster.hasShardTypes()) // nothing is explained about several degrees
    return reportNone(outcome, options);
  std::optional<SearchedSpace> searched; // with all constraints
  auto solve = [&](const Problem &problem, Effort effort) {
    SearchOptions searching = inputs.searching;
    searching.stop = &interrupted;
    searching.workLimit = std::min(searching.workLimit, effort.mostWork);
    if (effort.kind == Effort::AnyPlan)
      searching.gap = std::numeric_limits<double>::infinity();
    Expected<SearchOutcome> outcome = search(problem, options.strategy, searching);
    // Nothing is proven about the plans that the space leaves out.
    if (outcome && !outcome->space.leftOut.empty() &&
        outcome->termination == Termination::Infeasible)
      outcome->termination = Termination::Limit;
    if (outcome && !searched)
      searched = outcome->space;
    return outcome;
  };
  auto prove = [&](const Problem &problem) {
    return provenConflict({problem.graph, problem.cluster, *problem.costs, problem.request,
                           steadyMicroBatches(problem), inputs.searching.deadline});
  };
  constexpr int64_t mostTimes = 10, leastWork = 400'000;
  ExplainOptions explaining;
  explaining.deadline = inputs.searching.deadline;
  explaining.mostWork = mostTimes * std::max(work, leastWork);
  if (outcome) {
    searched = outcome->space;
    explaining.noneIsProven = outcome->isProven() && outcome->space.leftOut.empty();
  }
  Expected<Explanation> explanation = explain(inputs.problem, solve, prove, explaining);
  if (!explanation)
    return explanation.takeError();
  if (int degree = inputs.problem.cluster.shardDegree; degree > 1)
    errs() << "note: each device of the answer stands for " << degree
           << " devices that share every layer\n";
  if (options.json)
    writeInfeasible(outs(), *explanation, searched.value_or(SearchedSpace()));
  else
    printInfeasible(outs(), *explanation);
  return exitInfeasible;
}

Diagnostic interruptedEarly() {
  return Diagnostic(Diag::CannotWrite, {"", 0, 0, "heterplan compile"})
         << "interrupted before a plan was found; nothing is written";
}

/// The plan is good and checked, but the search had not ended.
void noteInterruption(bool ended) {
  if (interrupted && !ended)
    errs() << "note: interrupted: the search had not ended; this is the best plan that it had "
              "found, with its bound\n";
}

Expected<ExitStatus> finish(Plan &plan, const Inputs &inputs, const CompileOptions &options) {
  Expected<std::optional<PlannedCopy>> copy = addBackground(plan, inputs, options);
  if (!copy)
    return copy.takeError();
  Expected<bool> passes = passesChecks(plan, inputs, options);
  if (!passes)
    return passes.takeError();
  if (!*passes)
    return exitInternal;
  Expected<std::vector<AlternativePlan>> alternatives =
      findAlternatives(plan, inputs, options, interrupted);
  if (!alternatives)
    return alternatives.takeError();
  for (AlternativePlan &each : *alternatives) {
    passes = passesChecks(each.plan, inputs, options);
    if (!passes)
      return passes.takeError();
    if (!*passes)
      return exitInternal;
  }
  Expected<PlanLimits> limits = limitsOf(plan, inputs);
  if (!limits)
    return limits.takeError();
  const PlannedCopy *planned = *copy ? &**copy : nullptr;
  if (Error error = writePlan(plan, inputs, options, {{}, *alternatives, planned, &*limits}))
    return error;
  noteInterruption(plan.optimal);
  printNotes(inputs, options);
  warnOfMixedVendors(plan, inputs.problem.cluster);
  printInferred(plan, inputs.problem, *inputs.costs.inferred);
  showPlan(plan, inputs.problem.cluster, options, &*limits);
  if (!options.json) {
    printAlternatives(outs(), plan, *alternatives);
    printNext(options);
  }
  return exitDone;
}

/// Sweeps the Pareto front; the time limit is for all of it, what is left of it shared evenly.
Expected<ParetoFront> sweep(const Inputs &inputs, const CompileOptions &options, int points,
                            bool leavesOut, std::atomic<int64_t> &work) {
  Progress progress = Progress::onStandardError("planning the Pareto front");
  std::signal(SIGINT, interrupt);
  int done = 0, all = 1;
  auto run = [&](const Problem &problem, int searchesLeft) {
    SearchOptions searching = inputs.searching;
    searching.stop = &interrupted;
    searching.deadline = searching.deadline.part(1.0 / searchesLeft);
    searching.work = &work;
    searching.progress = [&](double share, double best) {
      progress.update((done + std::min(share, 1.0)) / all,
                      "plan " + std::to_string(done + 1) + ", " + bestText(problem.request, best));
    };
    Expected<SearchOutcome> outcome = search(problem, options.strategy, searching);
    if (outcome && leavesOut)
      leaveOut(*outcome, sharedLayers);
    return outcome;
  };
  ParetoOptions sweeping;
  sweeping.points = points;
  sweeping.stop = [&] { return interrupted.load() || inputs.searching.deadline.passed(); };
  sweeping.progress = [&](int searched, int searches) {
    done = searched;
    all = searches;
  };
  return paretoFront(inputs.problem, run, sweeping);
}

/// The plan that is written in full: the end that --objective names, else the knee.
size_t choose(const ParetoFront &front, const CompileOptions &options) {
  if (options.objective == "cost" || options.objective == nameOf(Objective::DeviceSeconds))
    return 0;
  return options.objective == "throughput" ? front.plans.size() - 1 : front.knee;
}

Expected<ExitStatus> compileParetoFront(const Inputs &inputs, const CompileOptions &options,
                                        bool leavesOut) {
  Expected<int> points = readParetoPoints(options);
  if (!points)
    return points.takeError();
  std::atomic<int64_t> work = 0;
  Expected<ParetoFront> found = sweep(inputs, options, *points, leavesOut, work);
  if (!found)
    return found.takeError();
  if (found->plans.empty() && interrupted)
    return interruptedEarly();
  if (found->plans.empty())
    return reportInfeasible(inputs, options, work);
  for (Plan &plan : found->plans) {
    Expected<bool> passes = passesChecks(plan, inputs, options);
    if (!passes)
      return passes.takeError();
    if (!*passes)
      return exitInternal;
  }
  std::vector<Plan> written; // with all devices
  for (const Plan &plan : found->plans)
    written.push_back(withShardDevices(plan, inputs.problem.cluster));
  ParetoPlans front{written, choose(*found, options), found->spent};
  const Plan &chosen = found->plans[front.chosen];
  Expected<PlanLimits> limits = limitsOf(chosen, inputs);
  if (!limits)
    return limits.takeError();
  if (Error error = writePlan(chosen, inputs, options, {front, {}, nullptr, &*limits}))
    return error;
  noteInterruption(/*ended=*/false);
  if (found->notReached > 0 && !interrupted)
    errs() << "note: the time limit left out " << found->notReached << " of " << *points
           << " points of the Pareto front\n";
  printNotes(inputs, options);
  warnOfMixedVendors(chosen, inputs.problem.cluster);
  printInferred(chosen, inputs.problem, *inputs.costs.inferred);
  if (options.json) {
    outs() << emitParetoFront(front);
    return exitDone;
  }
  printParetoFront(outs(), front);
  showPlan(chosen, inputs.problem.cluster, options, &*limits);
  printNext(options);
  return exitDone;
}

/// Puts the layers into the narrow order.
Error reorder(Problem &problem) {
  if (!mayReorder(problem))
    return notSupported("--layer-order narrow with bursts or data parallelism");
  if (std::optional<LayerGraph> layers = inNarrowOrder(problem))
    problem.graph = std::move(*layers);
  return Error::success();
}

/// Plans with one degree. `leavesOut`: others are possible, and nobody has said that they are not
/// wanted.
Expected<ExitStatus> compileOnce(Inputs inputs, const CompileOptions &options, OrderChoice order,
                                 bool leavesOut) {
  if (order == OrderChoice::Narrow)
    if (Error error = reorder(inputs.problem))
      return error;
  inputs.searching.deadline = deadlineOfSearches(inputs.searching.deadline, inputs.problem);
  if (options.pareto)
    return compileParetoFront(inputs, options, leavesOut);
  Expected<BestOrder> found = plan(inputs, options, order);
  if (!found)
    return found.takeError();
  auto &[outcome, layers] = *found;
  if (leavesOut)
    leaveOut(outcome, sharedLayers);
  if (layers)
    inputs.problem.graph = std::move(*layers);
  if (!outcome.plan && interrupted)
    return interruptedEarly();
  if (!outcome.plan)
    return reportInfeasible(inputs, options, outcome.work, &outcome);
  return finish(*outcome.plan, inputs, options);
}

/// The best plan of all degrees; the time limit is for all of them. If the user asks for it, notes
/// say why a degree has no plans.
Expected<ExitStatus> compileAnyDegree(PlanningSources sources, const CompileOptions &options,
                                      OrderChoice order) {
  Expected<Cluster> cluster = readWholeCluster(options.costs);
  Expected<double> share = shareOfPlan(options);
  if (!cluster || !share)
    return joinErrors(cluster.takeError(), share.takeError());
  CompileOptions first = options;
  first.tensorParallel = "1";
  sources.request.comparesDegrees = true;
  const std::vector<int> degrees = degreesFor(sources.model.layers, *cluster);
  std::signal(SIGINT, interrupt);
  Expected<std::unique_ptr<DegreePlanner>> planner =
      DegreePlanner::create(first, std::move(sources), degrees, order);
  if (!planner)
    return planner.takeError();
  if (!options.tensorParallel.empty())
    for (int degree : degrees)
      (*planner)->admitUnmeasured(degree);
  Expected<DegreePlan> best = (*planner)->plan(interrupted, *share);
  if (!best)
    return best.takeError();
  if (!options.tensorParallel.empty())
    for (const std::string &reason : (*planner)->reasons())
      if (!reason.empty())
        errs() << "note: " << reason << '\n';
  auto &[own, outcome] = *best;
  if (!outcome.plan && interrupted)
    return interruptedEarly();
  if (!outcome.plan)
    return reportInfeasible(own.inputs, own.options, outcome.work, &outcome);
  return finish(*outcome.plan, own.inputs, own.options);
}

/// Whether the best degree is looked for though it is not asked for: a model is divided unless that
/// is not supported with other options. Strategies other than `auto` plan whole layers, as their
/// publications do.
bool mayCompareDegrees(const PlanningSources &sources, const CompileOptions &options) {
  if (!options.tensorParallel.empty() || !sources.model.graph || options.strategy != "auto" ||
      hasTables(sources.model.layers))
    return false;
  Error error = checkBesideShards(options, Degrees::Best);
  const bool isSupported = !error;
  consumeError(std::move(error));
  return isSupported;
}

Expected<ExitStatus> compile(const CompileOptions &options) {
  if (!options.sequenceParallel.empty() && StringRef(options.model).endswith(".layers.json"))
    return usageError("--sequence-parallel")
           << "a layers file says how its layers are divided; give the .onnx file, or leave it out";
  Expected<OrderChoice> order = readOrderChoice(options);
  if (!order)
    return order.takeError();
  const bool asksForBest = options.tensorParallel == "auto";
  if (asksForBest)
    if (Error error = checkBesideShards(options, Degrees::Best))
      return error;
  Expected<PlanningSources> sources = readSources(options);
  if (!sources)
    return sources.takeError();
  if (asksForBest || mayCompareDegrees(*sources, options))
    return compileAnyDegree(std::move(*sources), options, *order);
  const bool mayShare = options.tensorParallel.empty() && sources->model.graph;
  Expected<Inputs> inputs = planningInputsOf(options, std::move(*sources));
  if (!inputs)
    return inputs.takeError();
  const bool leavesOut = mayShare && degreesOf(inputs->problem.cluster).size() > 1;
  return compileOnce(std::move(*inputs), options, *order, leavesOut);
}

} // namespace

void heterplan::addCompile(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("compile", "plan the training of a model on a cluster");
  auto options = std::make_shared<CompileOptions>();
  addCompileOptions(*command, *options);
  command->callback([options, &action] { action = [options] { return compile(*options); }; });
}
