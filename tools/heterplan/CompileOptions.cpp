#include "CompileOptions.h"

#include "Commands.h"
#include "OptionChoices.h"
#include "Options.h"

#include "cost/IterationRules.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
void addLimits(CLI::App &command, CompileOptions &options) {
  addText(command, "--batch", options.batch, "N", "samples of the global batch (256)");
  addText(command, "--objective", options.objective, "GOAL",
          "cost, throughput or, of bursts, gpu-seconds; default: cost if a least throughput or a "
          "longest iteration is given, else throughput");
  addText(command, "--min-throughput", options.minThroughput, "SAMPLES/S",
          "least throughput that is accepted");
  addText(command, "--max-cost-per-hour", options.maxCostPerHour, "DOLLARS",
          "highest price of the devices that is accepted");
  addText(command, "--max-cost-per-million-samples", options.maxCostPerMillionSamples, "DOLLARS",
          "highest cost of 10^6 samples that is accepted");
  addText(command, "--max-cost-per-iteration", options.maxCostPerIteration, "DOLLARS",
          "highest cost of an iteration that is accepted");
  addText(command, "--max-iteration-time", options.maxIterationTime, "SECONDS",
          "longest iteration that is accepted");
  addText(command, "--max-memory-fraction", options.maxMemoryFraction, "F",
          "part of the memory of each device that may be used, at most 1");
  addText(command, "--memory-headroom", options.memoryHeadroom, "F",
          "part of the memory of each device that is kept free (0.05 where it is stated what ranks "
          "take beyond tensors, else 0)");
  addTexts(command, "--max-devices", options.deviceLimits, "TYPE=N",
           "use at most so many devices of this type");
  addText(command, "--epochs", options.epochs, "N",
          "times that the samples are trained: says what that takes and costs (1)");
  addText(command, "--samples", options.samples, "M", "samples of an epoch");
  addTexts(command, "--pin", options.pins, "LAYER=TYPE", "put this layer on this device type");
  addTexts(command, "--colocate", options.colocations, "LAYER,LAYER[,...]",
           "put these layers, and those between them, in one stage");
  addTexts(command, "--separate", options.separations, "LAYER,LAYER[,...]",
           "put no two of these layers in one stage");
  addText(command, "--amplification-limit", options.amplificationLimit, "A",
          "of bursts: most device-seconds that a layer may take for a second of it on one device; "
          "with --schedule auto, bursts within it are compared with pipelines");
}

void addSearch(CLI::App &command, CompileOptions &options) {
  addText(command, "--schedule", options.schedule, "NAME",
          "auto (default: pipelines and data parallelism), pipeline, data-parallel, or burst: each "
          "layer on as many devices of one pool as pay off");
  addText(
      command, "--widths", options.widths, "WHICH",
      "numbers of devices of a burst's layers: powers (of two, default) or any, that divide the "
      "batch");
  addText(command, "--micro-batches", options.microBatches, "M",
          "micro-batches of an iteration; default: searched");
  addText(command, "--optimizer", options.optimizer, "NAME", "sgd (default), momentum or adam");
  addText(command, "--precision", options.precision, "NAME", "fp32 (default), tf32 or bf16");
  addText(command, "--batch-norm", options.batchNorm, "WHOSE",
          "samples that batch normalisation is trained by: synchronised (default: those of all "
          "replicas of its stage, as one process would) or local (those of each replica)");
  addText(
      command, "--recompute", options.recompute, "WHEN",
      "compute activations again in the backward pass instead of keeping them: auto (default: in "
      "stages that do not fit otherwise), never or always");
  addText(command, "--shard-state", options.shardState, "WHAT",
          "what the replicas of a stage divide among them: auto (default: what it needs to fit), "
          "none, optimizer (its state) or gradients (and them)");
  std::string models;
  for (const IterationModelInfo &model : iterationModels())
    models += (models.empty() ? "" : "; ") + std::string(model.name) + ": " + model.help;
  addText(command, "--iteration-model", options.iterationModel, "NAME",
          "how an iteration is timed (synchronous-1f1b); " + models);
  addText(command, "--cost-model", options.costModel, "NAME", "")->group(""); // until 0.3
  addText(command, "--rounding", options.rounding, "NAME",
          "sizes of the stages under steady-state: exact (default), or continuous ones rounded by "
          "ceiling, floor-repair or randomised");
  std::string names;
  for (const StrategyInfo &strategy : strategies()) // auto comes first
    names += names.empty() ? "auto (default)" : std::string(", ") + strategy.name;
  addText(command, "--strategy", options.strategy, "NAME", names);
  addText(
      command, "--time-limit", options.timeLimit, "SECONDS",
      "stop the search in time to end then, but for reading that takes more than half of it and "
      "writing that takes more than half of the rest; the plan is no longer reproducible");
  addText(command, "--work-limit", options.workLimit, "N",
          "stop the search after so many stages priced, the same on every machine (8000000)");
  addText(command, "--gap", options.gap, "G",
          "end when the plan is proven to be within this of the optimum, e.g. 0.01 (0)");
  addText(command, "--threads", options.threads, "N",
          "threads that improve the plan of auto under steady-state, at most 2 (1), and that make "
          "the files of the ranks (one a core, at most 8); without effect on either");
  addText(command, "--policy-in", options.policyIn, "FILE", "start rl-* from a saved policy");
  addText(command, "--policy-out", options.policyOut, "FILE", "save the policy that rl-* trained");
  addText(command, "--seed", options.seed, "N", "of strategies that draw at random (0)");
  command.add_flag(
      "--pareto", options.pareto,
      "plan the Pareto front of cost (of device-seconds, with --objective gpu-seconds) against "
      "throughput; DIR gets pareto.json, pareto/ and, in "
      "full, the plan at the knee (or the end that --objective names)");
  addText(command, "--pareto-points", options.paretoPoints, "N",
          "floors of the throughput that --pareto sweeps (12)");
}

Error readChoice(StringRef option, StringRef text, ArrayRef<const char *> accepted, auto &target) {
  if (text.empty())
    return Error::success();
  Expected<size_t> index = choiceOption(option, text, accepted);
  if (!index)
    return index.takeError();
  target = static_cast<std::remove_reference_t<decltype(target)>>(*index);
  return Error::success();
}

/// Of choicesOf().
Error readChoice(StringRef option, StringRef text, auto &target) {
  return readChoice(option, text, choicesOf(option), target);
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
  if (Error error =
          readLimit("--max-iteration-time", options.maxIterationTime, request.maxIteration))
    return error;
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

Error readChoices(const CompileOptions &options, Request &request) {
  bool hasFloor = !options.minThroughput.empty() || !options.maxIterationTime.empty();
  request.objective = hasFloor ? Objective::Cost : Objective::Throughput;
  if (Error error = readChoice("--objective", options.objective, request.objective))
    return error;
  if (Error error = readChoice("--schedule", options.schedule, request.schedule))
    return error;
  if (Error error = readChoice("--optimizer", options.optimizer, request.optimizer))
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
  if (Error error = readChoice("--batch-norm", options.batchNorm, request.batchNorm))
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

/// What belongs to a background job, and what it cannot be combined with.
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
  addLimits(command, options);
  addSearch(command, options);
}

void addCompileOptions(CLI::App &command, CompileOptions &options) {
  addArgument(command, "MODEL", options.model, "a .onnx or .layers.json file");
  addCostOptions(command, options.costs);
  addText(command, "-o,--output", options.directory, "DIR", "where the plan is written")
      ->required();
  addRequestOptions(command, options);
  addText(
      command, "--alternatives", options.alternatives, "K",
      "search for other plans too (a device type fewer or alone, one stage, a pipeline, half of "
      "the devices) and keep the best K in DIR/alternatives (0)");
  addText(command, "--background", options.background, "MODEL",
          "of bursts: a second model, trained at low priority in the idle gaps of the plan, a copy "
          "of its own on each device");
  addText(command, "--background-batch", options.backgroundBatch, "N",
          "samples of an iteration of such a copy (8)");
  addText(command, "--max-slowdown", options.maxSlowdown, "P%",
          "by which share the copies may lengthen an iteration of the plan (5%)");
  addReadingOptions(command, options.reading);
  command.add_flag("--force", options.force, "replace what DIR holds");
  command.add_flag("--json", options.json, "print the plan as JSON");
  command.footer("An option with several values ends at the next option: put MODEL first.");
}

Expected<Request> readRequest(const CompileOptions &options) {
  Request request;
  if (Error error = refuseUnsupported(options))
    return error;
  if (Error error = readChoices(options, request))
    return error;
  if (Error error = readFigures(options, request))
    return error;
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

Expected<SearchOptions> readSearchOptions(const CompileOptions &options, const Request &request) {
  SearchOptions result;
  Expected<int64_t> seed =
      wholeOption("--seed", options.seed, 0, 0, int64_t(1) << 53); // exact in JSON
  if (!seed)
    return seed.takeError();
  Expected<double> limit = realOption("--time-limit", options.timeLimit, 0, 0, /*inclusive=*/false);
  if (!limit)
    return limit.takeError();
  Expected<double> gap = realOption("--gap", options.gap, 0, 0, /*inclusive=*/true);
  if (!gap)
    return gap.takeError();
  Expected<int64_t> threads = wholeOption("--threads", options.threads, 1, 1, 1024);
  if (!threads)
    return threads.takeError();
  Expected<int64_t> work =
      wholeOption("--work-limit", options.workLimit, result.workLimit, 1, int64_t(1) << 53);
  if (!work)
    return work.takeError();
  result.workLimit = *work;
  if (Error error = readChoice("--rounding", options.rounding, result.rounding))
    return error;
  if (result.rounding != RoundingMethod::Exact && !rulesOf(request.iterationModel).fitsSizes())
    return Diagnostic(Diag::Usage, {"", 0, 0, "--rounding"})
               .note({}, "add --iteration-model steady-state")
           << "stages have no continuous sizes with the iteration model '"
           << nameOf(request.iterationModel) << "'";
  result.gap = *gap;
  result.threads = static_cast<int>(*threads);
  result.policyIn = options.policyIn;
  result.policyOut = options.policyOut;
  result.seed = static_cast<uint64_t>(*seed);
  result.timeLimit = Seconds(*limit);
  return result;
}

Expected<BackgroundOptions> readBackgroundOptions(const CompileOptions &options) {
  Expected<int64_t> batch =
      wholeOption("--background-batch", options.backgroundBatch, 8, 1, largestBatch);
  if (!batch)
    return batch.takeError();
  StringRef share = options.maxSlowdown;
  bool isPercent = share.consume_back("%");
  Expected<double> slowdown = realOption("--max-slowdown", share.str(), isPercent ? 5 : 0.05, 0,
                                         /*inclusive=*/true);
  if (!slowdown)
    return slowdown.takeError();
  return BackgroundOptions{Samples(*batch), isPercent ? *slowdown / 100 : *slowdown};
}

Expected<int> readAlternativeCount(const CompileOptions &options) {
  Expected<int64_t> count = wholeOption("--alternatives", options.alternatives, 0, 0, 99);
  if (!count)
    return count.takeError();
  return static_cast<int>(*count);
}

Expected<int> readParetoPoints(const CompileOptions &options) {
  Expected<int64_t> points = wholeOption("--pareto-points", options.paretoPoints, 12, 2, 99);
  if (!points)
    return points.takeError();
  return static_cast<int>(*points);
}

} // namespace heterplan
