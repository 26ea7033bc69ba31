// heterplan inspect: shows a plan, and why a layer is where it is.
#include "AlternativesText.h"
#include "Commands.h"
#include "Inputs.h"
#include "Options.h"
#include "PlanText.h"
#include "Table.h"

#include "codegen/Report.h"
#include "codegen/TorchTitanConfig.h"
#include "codegen/TorchXComponent.h"
#include "cost/Simulator.h"
#include "ir/FileForms.h"
#include "ir/PlanLimits.h"
#include "support/JsonWriter.h"
#include "support/Suggestion.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct InspectOptions {
  std::string plan, format = "text", layer, model;
  ModelOptions reading;
  bool json = false;
};

enum Format : size_t {
  formatText,
  formatJson,
  formatDot,
  formatHtml,
  formatTrace,
  formatTorchTitan,
  formatTorchX
};
constexpr const char *formatNames = "text, json, dot, html, trace, torchtitan or torchx";

const Pin *pinOf(const Plan &plan, StringRef layer) {
  for (const Pin &pin : plan.pins)
    if (pin.layer == layer)
      return &pin;
  return nullptr;
}

/// The other layers of each of `sets` that has `layer`.
void explainSets(raw_ostream &os, ArrayRef<LayerSet> sets, const std::string &layer,
                 const char *what) {
  for (const LayerSet &set : sets) {
    if (!is_contained(set, layer))
      continue;
    LayerSet others = set;
    erase_value(others, layer);
    os << "  it " << what << " '" << join(others, "', '") << "'\n";
  }
}

void explainBottleneck(raw_ostream &os, const Plan &plan, const Stage &stage) {
  const Stage &slowest = bottleneckOf(plan);
  if (plan.stages.size() == 1)
    return;
  if (&slowest == &stage)
    os << "  this stage is the bottleneck: no other takes longer for a micro-batch\n";
  else
    os << "  stage " << slowest.id << " is the bottleneck with " << readable(paceOf(plan, slowest))
       << "; this one uses " << percent(paceOf(plan, stage) / paceOf(plan, slowest))
       << " of that\n";
}

void explainBoundary(raw_ostream &os, const Stage &stage, size_t index) {
  if (index == 0 && stage.receive.value() > 0)
    os << "  first of its stage: receiving its input takes " << readable(stage.receive)
       << " of the forward pass\n";
  if (index + 1 == stage.layers.size() && stage.receiveGradient.value() > 0)
    os << "  last of its stage: receiving its gradient takes " << readable(stage.receiveGradient)
       << " of the backward pass\n";
}

using Alternatives = ArrayRef<AlternativePlan>;

void explainLayer(raw_ostream &os, const Plan &plan, StringRef name, const LayerPlace &found,
                  Alternatives alternatives) {
  const Stage &stage = *found.stage;
  os << "layer '" << name << "' is number " << found.index + 1 << " of " << stage.layers.size()
     << " in stage " << stage.id << " of " << plan.stages.size() << "\n";
  os << "  devices " << devicesText(stage) << ", samples " << sharesText(stage) << " of "
     << plan.globalBatch.value() << "\n";
  os << "  a micro-batch takes the stage " << readable(stage.forward) << " forward and "
     << readable(stage.backward) << " backward; synchronisation " << readable(stage.sync) << "\n";
  os << "  the stage needs " << readable(stage.memory) << " on its fullest device, "
     << readable(stage.parameterBytes) << " of it parameters\n";
  if (const Pin *pin = pinOf(plan, name))
    os << "  it is pinned to '" << pin->type << "'\n";
  explainSets(os, plan.colocations, name.str(), "is to be in one stage with");
  explainSets(os, plan.separations, name.str(), "is to be in another stage than");
  explainBoundary(os, stage, found.index);
  explainBottleneck(os, plan, stage);
  static constexpr const char *objectives[] = {"iteration time", "cost", "device-seconds"};
  os << "  the placement was chosen by '" << plan.strategy << "' for least "
     << objectives[static_cast<int>(plan.objective)]
     << (plan.optimal ? ", and is proven optimal in the searched space" : "") << "\n";
  if (plan.iterationModel != IterationModel::Burst)
    explainAlternatives(os, plan, alternatives, name);
}

/// The facts of explainLayer().
void writeLayer(raw_ostream &os, const Plan &plan, StringRef name, const LayerPlace &found,
                Alternatives alternatives) {
  const Stage &stage = *found.stage;
  const Pin *pin = pinOf(plan, name);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("layer", name);
    json.attribute("stage", int64_t(stage.id));
    json.attribute("index", int64_t(found.index));
    json.attribute("layersInStage", int64_t(stage.layers.size()));
    json.attribute("devices", devicesText(stage));
    json.attribute("forwardSeconds", stage.forward.value());
    json.attribute("backwardSeconds", stage.backward.value());
    json.attribute("syncSeconds", stage.sync.value());
    json.attribute("memoryBytes", stage.memory.value());
    if (pin)
      json.attribute("pinnedTo", pin->type);
    json.attribute("bottleneckStage", int64_t(bottleneckOf(plan).id));
    json.attribute("strategy", plan.strategy);
    json.attribute("optimal", plan.optimal);
    json.attribute("searchSpace", plan.searchSpace);
    writeAlternatives(json, plan, alternatives, name);
  });
}

std::vector<std::string> layersOf(const Plan &plan) {
  std::vector<std::string> names;
  for (const Stage &stage : plan.stages)
    append_range(names, stage.layers);
  return names;
}

Expected<ExitStatus> showLayer(const Plan &plan, const InspectOptions &options, size_t format) {
  if (format != formatText && format != formatJson)
    return usageError("--layer") << "a layer is shown as text or json, not as " << options.format;
  LayerPlace found = placeOf(plan, options.layer);
  if (!found.stage)
    return Diagnostic(Diag::UnknownLayer, {options.plan, 0, 0, ""})
               .note({}, "'heterplan inspect PLAN --format json' lists the layers of each stage")
           << "the plan has no layer '" << options.layer << "'"
           << didYouMean(options.layer, layersOf(plan));
  auto alternatives = readAlternatives(planDirectory(options.plan), plan);
  if (!alternatives)
    return alternatives.takeError();
  (format == formatJson ? writeLayer : explainLayer)(outs(), plan, options.layer, found,
                                                     *alternatives);
  return exitDone;
}

/// The forms that need the Program too: the report and the timeline.
Expected<ExitStatus> showPredicted(const Plan &plan, const InspectOptions &options, bool trace) {
  Expected<Program> program = readProgram(planDirectory(options.plan));
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  auto alternatives = readAlternatives(planDirectory(options.plan), plan);
  if (!alternatives)
    return alternatives.takeError();
  ReportInputs inputs;
  inputs.program = &*program;
  inputs.alternatives = *alternatives;
  outs() << (trace ? toJson(simulation->timeline, &*program)
                   : emitReport(plan, simulation->timeline, {}, inputs));
  return exitDone;
}

/// In the words of torchtitan, which names modules: those of the model.
Expected<ExitStatus> showTorchTitan(const Plan &plan, const InspectOptions &options) {
  if (options.model.empty())
    return usageError("--format") << "torchtitan names modules of the model: add --model MODEL";
  Expected<Program> program = readProgram(planDirectory(options.plan));
  if (!program)
    return program.takeError();
  Expected<Model> model = readModel(options.model, options.reading);
  if (!model)
    return model.takeError();
  Expected<LayerGraph> layers = inOrderOf(plan, std::move(model->layers));
  if (!layers)
    return layers.takeError();
  Expected<std::string> text = emitTorchTitanConfig(plan, *program, *layers);
  if (!text)
    return text.takeError();
  outs() << *text;
  return exitDone;
}

Expected<ExitStatus> showTorchX(const InspectOptions &options) {
  Expected<Program> program = readProgram(planDirectory(options.plan));
  if (!program)
    return program.takeError();
  outs() << emitTorchXComponent(*program);
  return exitDone;
}

Expected<ExitStatus> showText(const Plan &plan, const InspectOptions &options) {
  auto alternatives = readAlternatives(planDirectory(options.plan), plan);
  if (!alternatives)
    return alternatives.takeError();
  printPlan(outs(), plan, ChecksShown::Table);
  printAlternatives(outs(), plan, *alternatives);
  return exitDone;
}

Expected<ExitStatus> inspect(const InspectOptions &options) {
  Expected<size_t> format =
      choiceOption("--format", options.json ? "json" : options.format,
                   {"text", "json", "dot", "html", "trace", "torchtitan", "torchx"});
  if (!format)
    return format.takeError();
  Expected<Plan> plan = readPlanAt(options.plan);
  if (!plan)
    return plan.takeError();
  if (!options.layer.empty())
    return showLayer(*plan, options, *format);
  switch (*format) {
  case formatText:
    return showText(*plan, options);
  case formatJson:
    outs() << toJson(*plan);
    break;
  case formatDot:
    printPlanDot(outs(), *plan);
    break;
  case formatTorchTitan:
    return showTorchTitan(*plan, options);
  case formatTorchX:
    return showTorchX(options);
  default:
    return showPredicted(*plan, options, *format == formatTrace);
  }
  return exitDone;
}

} // namespace

void heterplan::addInspect(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("inspect", "show a plan; why each layer is where it is");
  auto options = std::make_shared<InspectOptions>();
  addArgument(*command, "PLAN", options->plan, "plan.json or the directory that holds it");
  addText(*command, "--format", options->format, "FORMAT", formatNames);
  addText(*command, "--model", options->model, "MODEL",
          "the model that was planned, for --format torchtitan");
  addText(*command, "--layer", options->layer, "NAME",
          "explain where this layer is, as text or json");
  command->add_flag("--json", options->json, "the same as --format json");
  addReadingOptions(*command, options->reading);
  command->callback([options, &action] { action = [options] { return inspect(*options); }; });
}
