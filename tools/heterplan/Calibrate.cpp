// heterplan calibrate: measured runs of a plan correct the profile that it was made with, and known
// throughputs correct what is modelled for a device type.
#include "Clock.h"
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "Table.h"
#include "Throughputs.h"

#include "cost/Calibration.h"
#include "ir/sharding/NotWithShards.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <set>

using namespace heterplan;
using namespace llvm;

namespace {

struct CalibrateOptions {
  std::string plan, model, output;
  std::vector<std::string> traces, throughputs;
  std::string table; // of throughputs
  CostOptions costs;
  ModelOptions reading;
  bool json = false;
};

/// The traces in `directory`, by name.
Expected<std::vector<std::string>> tracesIn(const std::string &directory) {
  std::set<std::string> found;
  std::error_code failure;
  for (sys::fs::directory_iterator file(directory, failure), end; !failure && file != end;
       file.increment(failure))
    if (StringRef(file->path()).endswith(".trace.json"))
      found.insert(file->path());
  if (!found.empty())
    return std::vector<std::string>(found.begin(), found.end());
  return Diagnostic(Diag::CannotRead, {directory, 0, 0, ""})
             .note({}, "'heterplan run DIR --trace DIR/1.trace.json' writes one")
         << "there is no measured timeline '*.trace.json' in it";
}

Expected<std::vector<Timeline>> readTimelines(const std::vector<std::string> &paths) {
  std::vector<Timeline> timelines;
  for (const std::string &path : paths) {
    Expected<Timeline> timeline = readTimeline(path);
    if (!timeline)
      return timeline.takeError();
    timelines.push_back(std::move(*timeline));
  }
  return timelines;
}

/// The ratios are of what the plan was predicted with: the same files must be given.
Error checkInputs(const Plan &plan, const LayerGraph &graph, const CostInputs &costs) {
  auto stale = [](const char *option) -> Error {
    return Diagnostic(Diag::StalePlan, {"", 0, 0, option})
               .note({}, "give the files that the plan was compiled with")
           << "is not what the plan was predicted with";
  };
  if (plan.modelFingerprint != graph.fingerprint)
    return stale("--model");
  if (plan.clusterFingerprint != costs.cluster.fingerprint)
    return stale("--cluster");
  std::vector<std::string> given = costs.measured->fingerprints(),
                           wanted = plan.profileFingerprints;
  llvm::sort(given);
  llvm::sort(wanted);
  return given == wanted ? Error::success() : stale("--profile");
}

/// Everything that is compared.
struct Run : PlanInputs {
  std::vector<std::string> traces;
};

Expected<Run> readRun(const CalibrateOptions &options) {
  Expected<PlanInputs> inputs =
      readPlanInputs(options.plan, options.model, options.reading, options.costs);
  if (!inputs)
    return inputs.takeError();
  if (Error error = checkInputs(inputs->plan, inputs->graph, inputs->costs))
    return error;
  Expected<std::vector<std::string>> traces = options.traces;
  if (options.traces.empty())
    traces = tracesIn(planDirectory(options.plan));
  if (!traces)
    return traces.takeError();
  return Run{std::move(*inputs), std::move(*traces)};
}

std::string ratioText(const Ratio &ratio) {
  return ratio.count ? fixed(ratio.value, 3) : "not known";
}

void printText(const Calibration &found, const CalibrateOptions &options, size_t traces) {
  Table stages({"stage", "device type", ">forward", ">backward", ">update", ">passes"});
  for (const StageRatio &stage : found.stages)
    stages.row({std::to_string(stage.stage), stage.deviceType, ratioText(stage.forward),
                ratioText(stage.backward), ratioText(stage.update),
                std::to_string(stage.forward.count)});
  outs() << "measured / predicted, medians of " << traces << " timeline" << (traces == 1 ? "" : "s")
         << ":\n\n";
  stages.print(outs());
  if (!found.links.empty()) {
    Table links({"link", ">time", ">messages", ""});
    for (const LinkRatio &link : found.links)
      links.row({link.link.name.empty() ? "(without a name)" : link.link.name,
                 ratioText(link.ratio), std::to_string(link.ratio.count),
                 link.link.name.empty() ? "cannot be corrected: profiles know links by name" : ""});
    outs() << '\n';
    links.print(outs());
  }
  outs() << "\niteration   predicted " << readable(found.predicted) << ", measured "
         << readable(found.measured) << ", corrected " << readable(found.corrected) << '\n';
  if (found.measuredOverlap.total > Seconds(0))
    outs() << "all-reduce  hidden to " << percent(found.measuredOverlap.hidden()) << " (predicted "
           << percent(found.predictedOverlap.hidden()) << ")\n";
  outs() << "wrote " << options.output << "; compile with it after the other profiles\n";
}

void writeOverlap(JsonWriter &json, const char *name, const Overlap &overlap) {
  json.attributeObject(name, [&] {
    json.attribute("allReduceSeconds", overlap.total.value());
    json.attribute("exposedSeconds", overlap.exposed.value());
    json.attribute("hidden", overlap.hidden());
  });
}

void printJson(const Calibration &found, const CalibrateOptions &options, size_t traces) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("profile", options.output);
    json.attribute("timelines", int64_t(traces));
    json.attribute("predictedSeconds", found.predicted.value());
    json.attribute("measuredSeconds", found.measured.value());
    json.attribute("correctedSeconds", found.corrected.value());
    json.attributeArray("stages", [&] {
      for (const StageRatio &stage : found.stages)
        json.object([&] {
          json.attribute("stage", int64_t(stage.stage));
          json.attribute("deviceType", stage.deviceType);
          json.attribute("forward", stage.forward.value);
          json.attribute("backward", stage.backward.value);
          json.attribute("update", stage.update.value);
          json.attribute("passes", int64_t(stage.forward.count));
        });
    });
    json.attributeArray("links", [&] {
      for (const LinkRatio &link : found.links)
        json.object([&] {
          json.attribute("name", link.link.name);
          json.attribute("ratio", link.ratio.value);
          json.attribute("messages", int64_t(link.ratio.count));
        });
    });
    writeOverlap(json, "predictedOverlap", found.predictedOverlap);
    writeOverlap(json, "measuredOverlap", found.measuredOverlap);
  });
}

/// Adds the environment of the run that corrected the times.
void addEnvironment(Profile &profile, const Run &run) {
  profile.date = utcNow();
  profile.engine = "calibrated by " + std::to_string(run.traces.size()) + " measured timelines";
}

Expected<std::vector<MeasuredThroughput>> readRuns(const CalibrateOptions &options) {
  std::vector<MeasuredThroughput> runs;
  if (!options.table.empty()) {
    Expected<std::vector<MeasuredThroughput>> table = readThroughputs(options.table);
    if (!table)
      return table.takeError();
    runs = std::move(*table);
  }
  for (const std::string &text : options.throughputs) {
    Expected<MeasuredThroughput> run = parseThroughput(text);
    if (!run)
      return run.takeError();
    runs.push_back(std::move(*run));
  }
  if (runs.empty())
    return usageError("--throughputs") << "'" << options.table << "' has no rows";
  return runs;
}

void printRuns(ArrayRef<ComparedThroughput> runs, ArrayRef<IterationRatio> ratios,
               const CalibrateOptions &options) {
  Table table({"model", "devices", "precision", ">batch", ">modelled", ">measured", ">ratio"});
  for (const ComparedThroughput &each : runs)
    table.row({sys::path::stem(each.run.model).str(),
               std::to_string(each.run.devices) + "×" + each.run.deviceType, nameOf(each.precision),
               each.run.batch, readable(each.modelled), readable(each.measured),
               fixed(each.ratio(), 3)});
  table.print(outs());
  outs() << '\n';
  for (const IterationRatio &each : ratios)
    outs() << "modelled times of '" << each.deviceType << "' in " << nameOf(each.precision)
           << " are multiplied by " << fixed(each.ratio, 3) << " (" << each.runs
           << (each.runs == 1 ? " run)\n" : " runs)\n");
  if (any_of(runs, [](const ComparedThroughput &each) { return each.run.devices > 1; }))
    outs() << "assumed: devices of one run are linked by PCIe 4\n";
  outs() << "wrote " << options.output << "; compile with '--profile " << options.output << "'\n";
}

void printRunsAsJson(ArrayRef<ComparedThroughput> runs, ArrayRef<IterationRatio> ratios,
                     const CalibrateOptions &options) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("profile", options.output);
    json.attributeArray("runs", [&] {
      for (const ComparedThroughput &each : runs)
        json.object([&] {
          json.attribute("model", each.run.model);
          json.attribute("deviceType", each.run.deviceType);
          json.attribute("devices", each.run.devices);
          json.attribute("precision", nameOf(each.precision));
          json.attribute("modelledSeconds", each.modelled.value());
          json.attribute("measuredSeconds", each.measured.value());
          json.attribute("ratio", each.ratio());
        });
    });
    json.attributeArray("ratios", [&] {
      for (const IterationRatio &each : ratios)
        json.object([&] {
          json.attribute("deviceType", each.deviceType);
          json.attribute("precision", nameOf(each.precision));
          json.attribute("ratio", each.ratio);
          json.attribute("runs", each.runs);
        });
    });
  });
}

/// A profile that corrects what is modelled for the device types of known runs.
Expected<ExitStatus> calibrateByThroughput(const CalibrateOptions &options) {
  Expected<std::vector<MeasuredThroughput>> runs = readRuns(options);
  if (!runs)
    return runs.takeError();
  std::vector<ComparedThroughput> compared;
  for (const MeasuredThroughput &run : *runs) {
    Expected<ComparedThroughput> each = compareThroughput(run);
    if (!each)
      return each.takeError();
    compared.push_back(std::move(*each));
  }
  Profile profile;
  profile.date = utcNow();
  profile.engine = "calibrated by " + std::to_string(compared.size()) + " throughputs";
  profile.iterations = ratiosOf(compared);
  if (Error error = writeFile(options.output, toJson(profile)))
    return error;
  (options.json ? printRunsAsJson : printRuns)(compared, profile.iterations, options);
  return exitDone;
}

/// Checks that the options are those of one way of calibrating.
Error checkWay(const CalibrateOptions &options) {
  const bool byThroughput = !options.throughputs.empty() || !options.table.empty();
  const std::pair<const char *, bool> ofPlans[] = {{"PLAN", !options.plan.empty()},
                                                   {"--model", !options.model.empty()},
                                                   {"--cluster", !options.costs.cluster.empty()}};
  for (auto [name, isGiven] : ofPlans) {
    if (!byThroughput && !isGiven)
      return usageError(name) << "is needed, unless --throughput is given";
    if (byThroughput && isGiven)
      return usageError(name) << "is not accepted with --throughput, which names its model and "
                                 "devices itself";
  }
  return Error::success();
}

/// The timelines of groups of `degree` devices that share layers: those of their first devices, as
/// all of a group compute alike.
std::vector<Timeline> ofGroups(std::vector<Timeline> timelines, int degree) {
  for (Timeline &timeline : timelines) {
    erase_if(timeline.events, [&](const TimelineEvent &event) { return event.rank % degree != 0; });
    for (TimelineEvent &event : timeline.events)
      event.rank /= degree;
  }
  return timelines;
}

Expected<ExitStatus> calibrate(const CalibrateOptions &options) {
  if (Error error = checkWay(options))
    return error;
  if (!options.throughputs.empty() || !options.table.empty())
    return calibrateByThroughput(options);
  Expected<Run> run = readRun(options);
  if (!run)
    return run.takeError();
  Expected<std::vector<Timeline>> timelines = readTimelines(run->traces);
  if (!timelines)
    return timelines.takeError();
  const CostInputs &costs = run->costs;
  if (costs.cluster.hasShardTypes())
    return notWithShards(NotWithShards::UnequalDegreesCalibrated);
  timelines = ofGroups(std::move(*timelines), costs.cluster.shardDegree);
  Expected<Program> program = lower(run->plan, run->graph, costs.cluster);
  if (!program)
    return program.takeError();
  Expected<Calibration> found =
      heterplan::calibrate(*program, costs.cluster, *timelines, run->traces);
  if (!found)
    return found.takeError();
  const CostModel &ofLayers = costs.ofShards ? *costs.ofShards : *costs.model; // without messages
  Expected<Profile> profile =
      correctedProfile(*found, run->plan, run->graph, costs.cluster, ofLayers, *costs.measured);
  if (!profile)
    return profile.takeError();
  addEnvironment(*profile, *run);
  if (Error error = writeFile(options.output, toJson(*profile)))
    return error;
  (options.json ? printJson : printText)(*found, options, timelines->size());
  return exitDone;
}

} // namespace

void heterplan::addCalibrate(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("calibrate", "correct times by measured runs");
  auto options = std::make_shared<CalibrateOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it")
      ->required(false);
  beginGroup(*command, "Input");
  addText(*command, "--model", options->model, "FILE", "the model that was compiled");
  addCostOptions(*command, options->costs);
  command->get_option("--cluster")->required(false);
  addTexts(*command, "--trace", options->traces, "FILE",
           "files of 'heterplan run --trace FILE' (default: all *.trace.json beside the plan)");
  addTexts(*command, "--throughput", options->throughputs, "RUN",
           "instead of a plan: a run and its samples per second, such as 'resnet50.onnx batch=256 "
           "precision=bf16 devices=1xrtx-3090 780/s'");
  addText(*command, "--throughputs", options->table, "FILE",
          "such runs as CSV with the columns model, batch, precision, devices, throughput");
  addReadingOptions(*command, options->reading);
  beginGroup(*command, "Output");
  addText(*command, "-o,--output", options->output, "FILE", "the corrected profile")->required();
  command->add_flag("--json", options->json, "print the ratios as JSON");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}
