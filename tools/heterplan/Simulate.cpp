// heterplan simulate: runs the Program of a plan on the cost model.
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "SimulateBalance.h"
#include "Table.h"

#include "cost/BackgroundSimulator.h"
#include "cost/Simulator.h"
#include "ir/FileForms.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct SimulateOptions {
  std::string plan, trace;
  BalanceCommand balance;
  bool json = false;
};

/// The times of a stage, summed over its ranks.
struct StageUse {
  int ranks = 0;
  Seconds computing{}, moving{};
};

/// The copies of a background job beside the ranks.
struct Beside {
  double slowdown = 0; // share of the iteration
  SamplesPerSecond rate{};
};

struct Result {
  Program program;
  Simulation simulation;
  std::vector<StageUse> uses;
  std::optional<Beside> background;

  Seconds iteration() const { return simulation.timeline.iteration; }
  /// Share of the iteration that the ranks of `use` spend on `busy`.
  double share(const StageUse &use, Seconds busy) const {
    return iteration().value() > 0 ? busy / (iteration() * double(use.ranks)) : 0;
  }
};

bool isComputing(Op op) { return infoOf(op).kind == InstructionClass::Compute; }

std::vector<StageUse> usesOf(const Program &program, const Timeline &timeline) {
  std::vector<StageUse> uses(program.stages);
  for (const RankProgram &rank : program.ranks)
    for (const ProgramPart &part : rank.parts)
      ++uses[part.stage].ranks;
  for (const TimelineEvent &event : timeline.events) {
    StageUse &use = uses[event.stage];
    (isComputing(event.op) ? use.computing : use.moving) += event.end - event.begin;
  }
  return uses;
}

/// Share of the time of all ranks in which they wait.
double bubbleShare(const Result &result) {
  StageUse all;
  all.ranks = static_cast<int>(result.program.ranks.size());
  for (const StageUse &use : result.uses) {
    all.computing += use.computing;
    all.moving += use.moving;
  }
  return std::max(0.0, 1 - result.share(all, all.computing + all.moving));
}

SamplesPerSecond throughputOf(const Result &result) {
  return result.program.globalBatch / result.iteration();
}

void printText(const Result &result) {
  Table table({"stage", ">ranks", ">compute", ">communicate", ">wait"});
  for (size_t stage = 0; stage < result.uses.size(); ++stage) {
    const StageUse &use = result.uses[stage];
    double computing = result.share(use, use.computing), moving = result.share(use, use.moving);
    table.row({std::to_string(stage), std::to_string(use.ranks), percent(computing),
               percent(moving), percent(std::max(0.0, 1 - computing - moving))});
  }
  outs() << "iteration   " << readable(result.iteration()) << " (the plan says "
         << readable(result.program.predictedIteration) << ")\n"
         << "eager       " << readable(result.simulation.eager)
         << " without waiting for the bottleneck stage\n"
         << "throughput  " << plain(throughputOf(result).value()) << " samples/s\n"
         << "bubble      " << percent(bubbleShare(result)) << " of all ranks' time is waiting\n\n";
  table.print(outs());
  if (result.background)
    outs() << "\nbackground job: " << plain(result.background->rate.value())
           << " samples/s; an iteration takes " << percent(result.background->slowdown)
           << " longer beside it\n";
}

void printJson(const Result &result) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("model", result.program.model);
    json.attribute("iterationSeconds", result.iteration().value());
    json.attribute("plannedSeconds", result.program.predictedIteration.value());
    json.attribute("eagerSeconds", result.simulation.eager.value());
    json.attribute("throughput", throughputOf(result).value());
    json.attribute("bubbleShare", bubbleShare(result));
    if (result.background)
      json.attributeObject("background", [&] {
        json.attribute("slowdown", result.background->slowdown);
        json.attribute("samplesPerSecond", result.background->rate.value());
      });
    json.attributeArray("stages", [&] {
      for (size_t stage = 0; stage < result.uses.size(); ++stage)
        json.object([&] {
          const StageUse &use = result.uses[stage];
          json.attribute("id", stage);
          json.attribute("ranks", use.ranks);
          json.attribute("busySeconds", (use.computing + use.moving).value() / use.ranks);
          json.attribute("utilisation", result.share(use, use.computing));
          json.attribute("communication", result.share(use, use.moving));
        });
    });
  });
}

/// Both Programs together, as the plan packs them; none where it has no background job.
Expected<std::optional<Beside>> simulateBeside(const std::string &directory,
                                               const Program &program) {
  if (!sys::fs::exists(directory + "/background/ranks"))
    return std::nullopt;
  Expected<Plan> plan = readPlanAt(directory);
  if (!plan)
    return plan.takeError();
  if (!plan->background)
    return std::nullopt;
  Expected<Program> copy = readProgram(directory + "/background");
  if (!copy)
    return copy.takeError();
  std::vector<int> hosts;
  for (const RankProgram &rank : program.ranks)
    for (const BackgroundCopy &each : plan->background->copies)
      if (each.device == rank.device)
        hosts.push_back(rank.rank);
  Expected<SharedSimulation> shared =
      simulateTogether(program, *copy, hosts, plan->background->overrun);
  if (!shared)
    return shared.takeError();
  Beside result{shared->slowdown, {}};
  Seconds iteration = shared->iteration * (1 + shared->slowdown);
  for (double iterations : shared->iterations)
    result.rate +=
        SamplesPerSecond(iterations * double(copy->globalBatch.value()) / iteration.value());
  return result;
}

Expected<ExitStatus> simulate(const SimulateOptions &options) {
  if (options.balance.any() && !options.trace.empty())
    return usageError("--trace") << "is of the plan alone; leave --speeds and --balance out";
  if (options.balance.any())
    return simulateBalanced(options.balance, planDirectory(options.plan), options.json);
  Expected<Program> program = readProgram(planDirectory(options.plan));
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = heterplan::simulate(*program);
  if (!simulation)
    return simulation.takeError();
  if (!options.trace.empty())
    if (Error error = writeFile(options.trace, toJson(simulation->timeline, &*program)))
      return error;
  std::vector<StageUse> uses = usesOf(*program, simulation->timeline);
  Expected<std::optional<Beside>> background =
      simulateBeside(planDirectory(options.plan), *program);
  if (!background)
    return background.takeError();
  Result result{std::move(*program), std::move(*simulation), std::move(uses), *background};
  (options.json ? printJson : printText)(result);
  return exitDone;
}

} // namespace

void heterplan::addSimulate(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("simulate", "run a plan on the cost model");
  auto options = std::make_shared<SimulateOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it");
  addText(*command, "--trace", options->trace, "FILE", "write the timeline (Chrome trace)");
  addBalanceOptions(*command, options->balance);
  command->add_flag("--json", options->json, "print the figures as JSON");
  command->callback([options, &action] { action = [options] { return simulate(*options); }; });
}
