// heterplan calibrate: measured runs of a plan correct the profile that it was made with.
#include "Clock.h"
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "Table.h"

#include "cost/Calibration.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace heterplan;
using namespace llvm;

namespace {

struct CalibrateOptions {
  std::string plan, model, output;
  std::vector<std::string> traces;
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

Expected<ExitStatus> calibrate(const CalibrateOptions &options) {
  Expected<Run> run = readRun(options);
  if (!run)
    return run.takeError();
  Expected<std::vector<Timeline>> timelines = readTimelines(run->traces);
  if (!timelines)
    return timelines.takeError();
  Expected<Program> program = lower(run->plan, run->graph, run->costs.cluster);
  if (!program)
    return program.takeError();
  Expected<Calibration> found =
      heterplan::calibrate(*program, run->costs.cluster, *timelines, run->traces);
  if (!found)
    return found.takeError();
  Expected<Profile> profile = correctedProfile(*found, run->plan, run->graph, run->costs.cluster,
                                               *run->costs.model, *run->costs.measured);
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
  CLI::App *command =
      root.add_subcommand("calibrate", "correct a profile by measured runs of a plan");
  auto options = std::make_shared<CalibrateOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it");
  beginGroup(*command, "Input");
  addText(*command, "--model", options->model, "FILE", "the model that was compiled")->required();
  addCostOptions(*command, options->costs);
  addTexts(*command, "--trace", options->traces, "FILE",
           "files of 'heterplan run --trace FILE' (default: all *.trace.json beside the plan)");
  addReadingOptions(*command, options->reading);
  beginGroup(*command, "Output");
  addText(*command, "-o,--output", options->output, "FILE", "the corrected profile")->required();
  command->add_flag("--json", options->json, "print the ratios as JSON");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}
