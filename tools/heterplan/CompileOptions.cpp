#include "CompileOptions.h"

#include "Commands.h"
#include "Inputs.h"
#include "OptionChoices.h"
#include "Options.h"

#include "cost/IterationRules.h"
#include "search/Search.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
void addGoal(CLI::App &command, CompileOptions &options) {
  beginGroup(command, "Goal");
  addText(command, "--objective", options.objective, "GOAL",
          "throughput, cost, or gpu-seconds (burst plans); default: cost if --min-throughput or "
          "--max-iteration-time is given, else throughput");
  addText(command, "--batch", options.batch, "N", "samples of the global batch (256)");
  addText(command, "--samples", options.samples, "M",
          "samples of an epoch; prints the total time and cost of training");
  addText(command, "--epochs", options.epochs, "N", "number of epochs; needs --samples (1)");
  command.add_flag(
      "--pareto", options.pareto,
      "plan the Pareto front of cost against throughput; DIR gets pareto.json, pareto/ "
      "and the plan at the knee (or the end that --objective names)");
  addText(command, "--pareto-points", options.paretoPoints, "N",
          "throughput floors that --pareto sweeps (12)");
}

void addConstraints(CLI::App &command, CompileOptions &options) {
  beginGroup(command, "Constraints");
  addText(command, "--min-throughput", options.minThroughput, "SAMPLES/S", "least throughput");
  addText(command, "--max-iteration-time", options.maxIterationTime, "TIME",
          "longest iteration: seconds, or with a unit, e.g. 200ms");
  addText(command, "--max-cost-per-hour", options.maxCostPerHour, "DOLLARS",
          "highest price of the devices");
  addText(command, "--max-cost-per-million-samples", options.maxCostPerMillionSamples, "DOLLARS",
          "highest cost of 10^6 samples");
  addText(command, "--max-cost-per-iteration", options.maxCostPerIteration, "DOLLARS",
          "highest cost of an iteration");
  addTexts(command, "--max-devices", options.deviceLimits, "TYPE=N",
           "use at most N devices of this type");
  addText(command, "--max-memory-fraction", options.maxMemoryFraction, "F",
          "fraction of each device's memory that may be used, at most 1");
  addText(
      command, "--memory-headroom", options.memoryHeadroom, "F",
      "fraction of each device's memory to keep free (0.05 if the memory overhead of the device "
      "is known, else 0)");
  addTexts(command, "--pin", options.pins, "LAYER=TYPE", "put this layer on this device type");
  addTexts(command, "--colocate", options.colocations, "LAYER,LAYER[,...]",
           "put these layers, and those between them, in one stage");
  addTexts(command, "--separate", options.separations, "LAYER,LAYER[,...]",
           "put no two of these layers in one stage");
}

void addParallelism(CLI::App &command, CompileOptions &options) {
  beginGroup(command, "Parallelism");
  addText(command, "--schedule", options.schedule, "NAME",
          "auto (default: pipelines and data parallelism), pipeline, data-parallel, or burst (each "
          "layer on as many devices of one pool as pay off)");
  addText(command, "--micro-batches", options.microBatches, "M",
          "micro-batches of an iteration (default: searched)");
  addText(command, "--recompute", options.recompute, "WHEN",
          "activation recomputation: auto (default: only in stages that do not fit otherwise), "
          "never or always");
  addText(command, "--shard-state", options.shardState, "WHAT",
          "state sharded over the replicas of a stage (ZeRO-1 to 3): none, optimizer, gradients, "
          "parameters, or auto (default)");
  command.add_flag("--overlap-grad-reduce", options.overlapGradReduce,
                   "replicas sum gradients while their last backward pass computes others, as DDP "
                   "does; predictions take messages for free of processor time");
  command.add_flag("--overlap-transfers", options.overlapTransfers,
                   "messages between the stages of a pipeline travel while both stages compute, "
                   "which takes more memory; predictions as above");
  addText(command, "--amplification-limit", options.amplificationLimit, "A",
          "burst plans: largest ratio of a layer's device-seconds to those on one device; with "
          "--schedule auto it also compares burst plans with pipelines");
  addText(command, "--widths", options.widths, "WHICH",
          "burst plans: device counts of a layer: powers (of two, default) or any divisor of the "
          "batch");
}

void addTraining(CLI::App &command, CompileOptions &options) {
  beginGroup(command, "Training");
  addText(command, "--optimizer", options.optimizer, "NAME", "sgd (default), momentum or adam");
  addText(command, "--optimizer-kernels", options.optimizerKernels, "NAME",
          "updates on a GPU: fused (default: one kernel for many parameters) or for-loop (kernels "
          "for each parameter)");
  addText(command, "--precision", options.precision, "NAME",
          "fp32 (default), tf32, bf16, or fp16 with scaled losses");
  addText(
      command, "--memory-format", options.memoryFormat, "NAME",
      "layout of images on a GPU: channels-first, channels-last, or auto (default): the faster");
  addText(command, "--batch-norm", options.batchNorm, "SCOPE",
          "statistics of batch normalisation: synchronised (default: over all replicas of a stage, "
          "as in one process) or local (per replica)");
}

void addSearch(CLI::App &command, CompileOptions &options) {
  beginGroup(command, "Search");
  addText(
      command, "--time-limit", options.timeLimit, "TIME",
      "end the command after this time with the best plan so far: seconds, or with a unit, e.g. "
      "90s; the plan is then not reproducible");
  addText(command, "--work-limit", options.workLimit, "N",
          "stop a search after N evaluated stages (8000000)");
  addText(command, "--gap", options.gap, "G",
          "stop when the plan is proven to be within this fraction of the optimum, e.g. 0.01 (0)");
  std::string names;
  for (const StrategyInfo &strategy : strategies()) // auto comes first
    names += names.empty() ? "auto (default)" : std::string(", ") + strategy.name;
  addText(command, "--strategy", options.strategy, "NAME", names);
  std::string models;
  for (const IterationModelInfo &model : iterationModels())
    models += (models.empty() ? "" : "; ") + std::string(model.name) + ": " + model.help;
  addText(command, "--iteration-model", options.iterationModel, "NAME",
          "how an iteration is timed (synchronous-1f1b); " + models);
  addText(command, "--cost-model", options.costModel, "NAME", "")->group(""); // until 0.3
  addText(command, "--rounding", options.rounding, "NAME",
          "device counts of stages with --iteration-model steady-state: exact (default), or "
          "continuous counts rounded by ceiling, floor-repair or randomised");
  addText(command, "--seed", options.seed, "N", "seed of randomised strategies (0)");
  addText(command, "--threads", options.threads, "N",
          "threads of the search and of the writing of files (one per core, at most 8); the plan "
          "does not depend on it");
  addText(command, "--without", options.without, "METHODS", "")->group(""); // bench/ablation.py
  addText(command, "--tune", options.tune, "NAME=VALUE", "")->group("");    // likewise
  addText(command, "--policy-in", options.policyIn, "FILE",
          "saved policy from which rl-* strategies start (rl-transformer: the bundled one)");
  addText(command, "--policy-out", options.policyOut, "FILE",
          "file for the policy that rl-* strategies train");
}

/// --iteration-model, or --cost-model with the names that versions before 0.2 had.
Error readIterationModel(const CompileOptions &options, IterationModel &model) {
  constexpr const char *formerNames[] = {"heterplan", "heterps"};
  if (Error error = readChoice("--cost-model", options.costModel, formerNames, model))
    return error;
  return readChoice("--iteration-model", options.iterationModel, model);
}

/// A limit that is more than 0; 0 where it is not given.
Error readLimit(StringRef option, StringRef text, auto &limit) {
  Expected<double> value = realOption(option, text, 0, 0, /*inclusive=*/false);
  if (!value)
    return value.takeError();
  limit = std::remove_reference_t<decltype(limit)>(*value);
  return Error::success();
}

Error readHeadroom(const CompileOptions &options, Request &request) {
  if (options.memoryHeadroom.empty())
    return Error::success();
  Expected<double> headroom =
      realOption("--memory-headroom", options.memoryHeadroom, 0, 0, /*inclusive=*/true);
  if (!headroom)
    return headroom.takeError();
  if (*headroom >= 1)
    return usageError("--memory-headroom")
           << "'" << options.memoryHeadroom << "' leaves no memory; accepted is 0 to below 1";
  request.memoryHeadroom = *headroom;
  return Error::success();
}

Error readLimits(const CompileOptions &options, Request &request) {
  if (Error error =
          readLimit("--max-cost-per-hour", options.maxCostPerHour, request.maxCostPerHour))
    return error;
  if (Error error = readLimit("--max-cost-per-million-samples", options.maxCostPerMillionSamples,
                              request.maxCostPerMillionSamples))
    return error;
  if (Error error = readLimit("--max-cost-per-iteration", options.maxCostPerIteration,
                              request.maxCostPerIteration))
    return error;
  Expected<Seconds> longest =
      durationOption("--max-iteration-time", options.maxIterationTime, Seconds(0));
  if (!longest)
    return longest.takeError();
  request.maxIteration = *longest;
  if (Error error =
          readLimit("--max-memory-fraction", options.maxMemoryFraction, request.maxMemoryFraction))
    return error;
  if (Error error = readHeadroom(options, request))
    return error;
  for (const std::string &text : options.deviceLimits) {
    Expected<std::pair<std::string, std::string>> limit = assignmentOption("--max-devices", text);
    if (!limit)
      return limit.takeError();
    Expected<int64_t> most = wholeOption("--max-devices", limit->second, 0, 0, 1 << 30);
    if (!most)
      return most.takeError();
    request.deviceLimits.push_back({limit->first, static_cast<int>(*most)});
  }
  return Error::success();
}

Error readFigures(const CompileOptions &options, Request &request) {
  Expected<double> floor =
      realOption("--min-throughput", options.minThroughput, 0, 0, /*inclusive=*/true);
  if (!floor)
    return floor.takeError();
  Expected<double> amplification =
      realOption("--amplification-limit", options.amplificationLimit, 0, 1, /*inclusive=*/true);
  if (!amplification)
    return amplification.takeError();
  request.amplificationLimit = *amplification;
  if (Error error = readLimits(options, request))
    return error;
  request.minThroughput = SamplesPerSecond(*floor);
  Expected<int64_t> batch = wholeOption("--batch", options.batch, 256, 1, largestBatch);
  if (!batch)
    return batch.takeError();
  Expected<int64_t> micro = wholeOption("--micro-batches", options.microBatches, 0, 1,
                                        std::min<int64_t>(*batch, 1 << 20));
  if (!micro)
    return micro.takeError();
  request.globalBatch = Samples(*batch);
  request.microBatches = static_cast<int>(*micro);
  return Error::success();
}

Error readTraining(const CompileOptions &options, Request &request) {
  if (options.samples.empty() && options.epochs.empty())
    return Error::success();
  constexpr int64_t most = int64_t(1) << 53; // exact in JSON
  Expected<int64_t> epochs = wholeOption("--epochs", options.epochs, 1, 1, most);
  if (!epochs)
    return epochs.takeError();
  Expected<int64_t> samples = wholeOption("--samples", options.samples, 0, 1, most);
  if (!samples)
    return samples.takeError();
  if (*samples == 0)
    return Diagnostic(Diag::Usage, {"", 0, 0, "--epochs"})
               .note({}, "e.g. --epochs 3 --samples 1000000")
           << "--epochs needs --samples, the number of samples of an epoch";
  request.training = Training{*epochs, *samples};
  return Error::success();
}

Error readShardState(const CompileOptions &options, Request &request) {
  if (options.shardState.empty() || options.shardState == "auto")
    return Error::success();
  request.shardState = StateSharding::None;
  return readChoice("--shard-state", options.shardState, *request.shardState);
}

/// Only the synchronous iteration model knows when a gradient is there, and what is on its way.
Error readOverlap(const CompileOptions &options, Request &request) {
  request.overlapsSums = options.overlapGradReduce;
  request.overlapsTransfers = options.overlapTransfers;
  const bool isSynchronous =
      request.iterationModel == IterationModel::Synchronous && options.amplificationLimit.empty();
  if (request.overlapsSums && !isSynchronous)
    return notSupported("--overlap-grad-reduce with burst or steady-state plans");
  if (request.overlapsTransfers && !isSynchronous)
    return notSupported("--overlap-transfers with burst or steady-state plans");
  return Error::success();
}

Error readChoices(const CompileOptions &options, Request &request) {
  if (Error error = readChoice("--objective", options.objective, request.objective))
    return error;
  if (Error error = readChoice("--schedule", options.schedule, request.schedule))
    return error;
  if (Error error = readChoice("--optimizer", options.optimizer, request.optimizer))
    return error;
  if (Error error =
          readChoice("--optimizer-kernels", options.optimizerKernels, request.optimizerKernels))
    return error;
  if (request.schedule == ScheduleChoice::Burst)
    request.iterationModel = IterationModel::Burst;
  if (Error error = readChoice("--widths", options.widths, request.widths))
    return error;
  if (Error error = readIterationModel(options, request.iterationModel))
    return error;
  if (Error error = readChoice("--recompute", options.recompute, request.recompute))
    return error;
  if (Error error = readShardState(options, request))
    return error;
  if (Error error = readOverlap(options, request))
    return error;
  if (Error error = readChoice("--batch-norm", options.batchNorm, request.batchNorm))
    return error;
  if (!options.memoryFormat.empty() && options.memoryFormat != "auto")
    if (Error error =
            readChoice("--memory-format", options.memoryFormat, request.memoryFormat.emplace()))
      return error;
  return readChoice("--precision", options.precision, request.precision);
}

Error readSets(StringRef option, ArrayRef<std::string> texts, std::vector<LayerSet> &sets) {
  for (const std::string &text : texts) {
    Expected<std::vector<std::string>> layers = listOption(option, text, 2);
    if (!layers)
      return layers.takeError();
    sets.push_back(std::move(*layers));
  }
  return Error::success();
}

/// Refuses options of a background job without one, and combinations that are not supported.
Error refuseUnsupported(const CompileOptions &options) {
  bool hasJob = !options.background.empty();
  if (!hasJob && !(options.backgroundBatch.empty() && options.maxSlowdown.empty()))
    return Diagnostic(
               Diag::Usage,
               {"", 0, 0, options.maxSlowdown.empty() ? "--background-batch" : "--max-slowdown"})
           << "is about a background job; name one by --background";
  if (hasJob && options.schedule != "burst")
    return Diagnostic(Diag::Usage, {"", 0, 0, "--background"}).note({}, "add --schedule burst")
           << "a background job is trained in the gaps of a burst plan";
  if (hasJob && options.pareto)
    return notSupported("--background with --pareto");
  bool compares = !options.alternatives.empty() && options.alternatives != "0";
  if (compares && options.pareto)
    return notSupported("--alternatives with --pareto");
  if (compares && (options.schedule == "burst" || !options.amplificationLimit.empty()))
    return notSupported("--alternatives to bursts");
  return Error::success();
}
} // namespace

void addRequestOptions(CLI::App &command, CompileOptions &options) {
  addGoal(command, options);
  addConstraints(command, options);
  addParallelism(command, options);
  addTraining(command, options);
  addSearch(command, options);
}

void addDegreeOptions(CLI::App &command, CompileOptions &options, const std::string &byDefault) {
  beginGroup(command, "Parallelism");
  addText(command, "--tensor-parallel", options.tensorParallel, "N|auto|by-stage",
          "each replica is N devices of a node that share every layer; auto: the best of 1, 2, 4, "
          "...; by-stage: the best of them for each stage (default: " +
              byDefault + ")");
  addText(command, "--sequence-parallel", options.sequenceParallel, "WHEN",
          "devices that share layers also divide what lies between products along the sequence: "
          "never, or where that is faster (auto)");
}

void addCompileOptions(CLI::App &command, CompileOptions &options) {
  addArgument(command, "MODEL", options.model, "a .onnx or .layers.json file");
  addRequestOptions(command, options);
  addDegreeOptions(command, options, "auto for a .onnx file, the degrees of a .layers.json file");
  beginGroup(command, "Search");
  addText(command, "--layer-order", options.layerOrder, "WHICH",
          "order of the layers, of which each stage is a consecutive range: given (that of the "
          "model), narrow (one in which less crosses the cuts), or auto (default: the better)");
  addText(command, "--alternatives", options.alternatives, "K",
          "search for other plans too (without a device type, on one type, one stage, a pipeline, "
          "half of the devices) and keep the best K in DIR/alternatives (0)");
  addCostOptions(command, options.costs);
  addReadingOptions(command, options.reading);
  addText(command, "--background", options.background, "MODEL",
          "a second model, trained at low priority in the idle gaps of a burst plan, one copy a "
          "device");
  addText(command, "--background-batch", options.backgroundBatch, "N",
          "samples of an iteration of such a copy (8)");
  addText(command, "--max-slowdown", options.maxSlowdown, "P%",
          "fraction by which the copies may lengthen an iteration of the plan (5%)");
  beginGroup(command, "Output");
  addText(command, "-o,--output", options.directory, "DIR", "directory for the plan")->required();
  command.add_flag("--force", options.force, "replace the contents of DIR");
  command.add_flag("--no-weights", options.noWeights,
                   "do not copy the weights into DIR; a run reads those of 64 KiB or more from the "
                   "files of the model, which must stay in place");
  command.add_flag("--json", options.json, "print the plan as JSON");
  command.add_flag("--verbose", options.verbose,
                   "print every fact of the plan and every note of the importer");
}

Expected<Request> readRequest(const CompileOptions &options) {
  Request request;
  if (Error error = refuseUnsupported(options))
    return error;
  if (Error error = readChoices(options, request))
    return error;
  if (Error error = readFigures(options, request))
    return error;
  bool hasFloor = request.minThroughput > SamplesPerSecond(0) || request.maxIteration > Seconds(0);
  if (options.objective.empty() && hasFloor)
    request.objective = Objective::Cost;
  if (Error error = readTraining(options, request))
    return error;
  for (const std::string &text : options.pins) {
    Expected<std::pair<std::string, std::string>> pin = assignmentOption("--pin", text);
    if (!pin)
      return pin.takeError();
    request.pins.push_back({pin->first, pin->second});
  }
  if (Error error = readSets("--colocate", options.colocations, request.colocations))
    return error;
  if (Error error = readSets("--separate", options.separations, request.separations))
    return error;
  return request;
}

} // namespace heterplan
