#include "Inputs.h"

#include "Commands.h"
#include "Hints.h"
#include "Options.h"
#include "ProfileText.h"
#include "Table.h"
#include "TensorParallel.h"

#include "cost/Catalogue.h"
#include "cost/DeviceSpeed.h"
#include "cost/ForLoopUpdates.h"
#include "cost/IterationRatioModel.h"
#include "cost/KernelModel.h"
#include "cost/ProfiledModel.h"
#include "cost/Roofline.h"
#include "cost/ShardGroups.h"
#include "ir/NodeClasses.h"
#include "ir/PlanShards.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "support/Suggestion.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t lastAxis = 63; // of tensors that are accepted

/// INPUT=K, where K may be "none".
Error addInputBatchDim(StringRef text, ImportOptions &options) {
  auto pair = assignmentOption("--batch-dim", text);
  if (!pair)
    return pair.takeError();
  if (pair->second == "none") {
    options.inputBatchDims[pair->first] = -1;
    return Error::success();
  }
  Expected<int64_t> axis = wholeOption("--batch-dim", pair->second, 0, 0, lastAxis);
  if (!axis)
    return axis.takeError();
  options.inputBatchDims[pair->first] = static_cast<int>(*axis);
  return Error::success();
}

/// An axis, the name of a dimension, "none", or INPUT=K.
Error addBatchDim(StringRef text, ImportOptions &options) {
  if (text.contains('='))
    return addInputBatchDim(text, options);
  if (text == "none") {
    options.noBatch = true;
    return Error::success();
  }
  if (!isDigit(text[0]) && text[0] != '-') {
    options.batchSymbol = text.str();
    return Error::success();
  }
  Expected<int64_t> axis = wholeOption("--batch-dim", text, 0, 0, lastAxis);
  if (!axis)
    return axis.takeError();
  options.batchDim = static_cast<int>(*axis);
  return Error::success();
}

Expected<ImportOptions> importOptions(const ModelOptions &options) {
  ImportOptions result;
  result.lookOnly = options.lookOnly;
  for (const std::string &text : options.batchDims)
    if (Error error = addBatchDim(text, result))
      return error;
  for (const std::string &text : options.dims) {
    auto pair = assignmentOption("--dim", text);
    if (!pair)
      return pair.takeError();
    Expected<int64_t> size = wholeOption("--dim", pair->second, 0, 0, largestBatch);
    if (!size)
      return size.takeError();
    result.dims[pair->first] = *size;
  }
  result.freeze = options.freeze;
  result.train = options.train;
  Expected<IdentityOptions> identity = readIdentityOptions(options);
  if (!identity)
    return identity.takeError();
  result.identity = std::move(*identity);
  return result;
}

/// A model that groupLayers() refuses: it has only constants and inputs.
Model withoutLayers(Graph graph) {
  LayerGraph layers;
  layers.model = graph.name;
  layers.fingerprint = graph.fingerprint;
  layers.notes = graph.notes;
  layers.notes.push_back("it cannot be planned: no operators are left after constants are folded");
  return Model{std::make_shared<Graph>(std::move(graph)), std::move(layers), std::nullopt};
}

Expected<Model> importModel(StringRef path, const ModelOptions &options) {
  Expected<ImportOptions> reading = importOptions(options);
  if (!reading)
    return reading.takeError();
  Expected<Graph> graph = importGraph(path, *reading);
  if (!graph)
    return graph.takeError();
  if (options.lookOnly && graph->nodes.empty())
    return withoutLayers(std::move(*graph));
  Expected<LayerGraph> layers = groupLayers(*graph);
  if (!layers)
    return layers.takeError();
  return Model{std::make_shared<Graph>(std::move(*graph)), std::move(*layers), std::nullopt};
}
} // namespace

namespace {
Error notAModel(StringRef path) {
  std::string text = "'" + path.str() + "' is neither a .onnx nor a .layers.json file";
  if (std::string hint = modelHint(path); !hint.empty())
    return usageError("MODEL").note({}, hint) << text;
  return usageError("MODEL") << text;
}
} // namespace

Error checkModelPath(StringRef path) {
  if (!path.endswith(".onnx") && !path.endswith(".json"))
    return notAModel(path);
  if (sys::fs::exists(path))
    return Error::success();
  return Diagnostic(Diag::CannotRead, {path.str(), 0, 0, ""}) << "there is no such file";
}

std::vector<std::pair<const char *, const std::vector<std::string> *>>
statedOptions(const ModelOptions &options) {
  return {
      {"--batch-dim", &options.batchDims}, {"--dim", &options.dims}, {"--freeze", &options.freeze},
      {"--train", &options.train},         {"--tie", &options.tie},  {"--untie", &options.untie}};
}

Expected<IdentityOptions> readIdentityOptions(const ModelOptions &options) {
  IdentityOptions result;
  result.untie = options.untie;
  for (const std::string &text : options.tie) {
    Expected<std::vector<std::string>> names = listOption("--tie", text, 2);
    if (!names)
      return names.takeError();
    result.tie.push_back(std::move(*names));
  }
  return result;
}

Expected<Model> readModel(StringRef path, const ModelOptions &options) {
  if (path.endswith(".onnx"))
    return importModel(path, options);
  if (!path.endswith(".json"))
    return notAModel(path);
  Expected<LayerGraph> layers = readLayerGraph(path);
  if (!layers)
    return layers.takeError();
  return Model{nullptr, std::move(*layers), std::nullopt};
}

void addReadingOptions(CLI::App &command, ModelOptions &options) {
  beginGroup(command, "Input");
  addTexts(command, "--batch-dim", options.batchDims, "K|NAME",
           "the dimension that counts samples: an axis of the inputs, a symbol, none, or INPUT=K "
           "(INPUT=none)")
      ->allow_extra_args(false);
  addTexts(command, "--dim", options.dims, "NAME=N",
           "value of a symbolic dimension; INPUT.K names one without a symbol");
  addTexts(command, "--freeze", options.freeze, "PATTERN",
           "parameters that are not trained, by name; * stands for any text")
      ->allow_extra_args(false);
  addTexts(command, "--train", options.train, "PATTERN",
           "parameters that are trained, though the file or --freeze says otherwise")
      ->allow_extra_args(false);
  addIdentityOptions(command, options);
}

void addIdentityOptions(CLI::App &command, ModelOptions &options) {
  addTexts(command, "--tie", options.tie, "NAME,NAME", "parameters that are one in the module")
      ->allow_extra_args(false);
  addTexts(command, "--untie", options.untie, "PATTERN",
           "parameters that are trained apart though their values are equal")
      ->allow_extra_args(false);
}

void addCostOptions(CLI::App &command, CostOptions &options) {
  beginGroup(command, "Input");
  addText(command, "--cluster", options.cluster, "FILE",
          "cluster file (YAML), or the name of a bundled one")
      ->required();
  addTexts(command, "--profile", options.profiles, "FILE",
           "measured times, which take precedence over modelled ones");
  command.add_flag("--require-measured", options.requireMeasured,
                   "fail if a time is not in a profile, instead of modelling it");
}

Expected<Catalogue> readCatalogue() {
  Expected<std::string> folder = findProfiles(executablePath());
  return folder ? Catalogue::load(*folder) : folder.takeError();
}

namespace {
/// A folder of the bundled profiles; "" if there are none.
std::string bundledFolder(StringRef name) {
  Expected<std::string> folder = findProfiles(executablePath());
  if (folder)
    return (*folder + "/" + name).str();
  consumeError(folder.takeError());
  return "";
}

} // namespace

std::string policyFolder() { return bundledFolder("policies"); }

std::vector<std::string> bundledClusters() {
  std::vector<std::string> names;
  std::error_code failure;
  for (sys::fs::directory_iterator file(bundledFolder("clusters"), failure), end;
       !failure && file != end; file.increment(failure))
    if (sys::path::extension(file->path()) == ".yaml")
      names.push_back(sys::path::stem(file->path()).str());
  llvm::sort(names);
  return names;
}

Expected<std::string> clusterFile(StringRef text) {
  if (sys::fs::exists(text))
    return text.str();
  std::vector<std::string> names = bundledClusters();
  StringRef name = sys::path::filename(text);
  name.consume_back(".yaml");
  if (name == text && is_contained(names, text))
    return bundledFolder("clusters") + "/" + text.str() + ".yaml";
  return Diagnostic(Diag::CannotRead, {text.str(), 0, 0, ""})
             .note({}, "bundled clusters, which need no path, are " + join(names, ", "))
         << "there is no such cluster file" << didYouMean(name, names);
}

/// The cluster at `path` with what the hardware catalogue knows of it.
Expected<Cluster> readWholeCluster(StringRef path) {
  Expected<std::string> file = clusterFile(path);
  if (!file)
    return file.takeError();
  Expected<Cluster> cluster = readCluster(*file);
  if (!cluster)
    return cluster.takeError();
  Expected<Catalogue> catalogue = readCatalogue();
  if (!catalogue)
    return catalogue.takeError();
  if (Error error = catalogue->resolve(*cluster))
    return error;
  return cluster;
}

Expected<Cluster> readWholeCluster(const CostOptions &options) {
  Expected<Cluster> cluster = readWholeCluster(options.cluster);
  if (cluster && options.lost.count > 0)
    *cluster = withoutNodes(std::move(*cluster), options.lost.group, options.lost.count);
  return cluster;
}

namespace {
void warnOfPrecision(const Profile &profile, StringRef path, Precision precision) {
  if (profile.entries.empty() || profile.precision.value_or(precision) == precision)
    return;
  errs() << toText(Diagnostic(Diag::ProfilePrecision, {path.str(), 0, 0, "precision"}).asWarning()
                   << "the layers were measured in " << nameOf(*profile.precision)
                   << ", and the plan computes in " << nameOf(precision))
         << '\n';
}

/// Removes the times of layers with images that were laid out in another way than the plan does.
void dropOtherFormat(Profile &profile, StringRef path, MemoryFormat format,
                     const LayerGraph &graph) {
  const size_t dropped = heterplan::dropOtherFormat(profile, format, graph);
  if (dropped > 0)
    errs() << toText(Diagnostic(Diag::ProfilePrecision, {path.str(), 0, 0, "memoryFormat"})
                         .asWarning()
                         .note({}, "measure with 'heterplan profile --memory-format " +
                                       std::string(nameOf(format)) +
                                       "', or compile with '--memory-format " +
                                       nameOf(profile.memoryFormat) + "'")
                     << "images were measured " << nameOf(profile.memoryFormat)
                     << ", and the plan lays them out " << nameOf(format) << ": " << dropped
                     << (dropped == 1 ? " time is" : " times are") << " not used")
           << '\n';
}

/// Warns of device types without units of `precision`, unless `measured` names them.
void warnOfMissingUnits(const Cluster &cluster, const std::set<std::string> &measured,
                        Precision precision) {
  for (const DeviceType &type : cluster.types) {
    if (!type.rates || measured.count(type.name) || measured.count(type.catalogue))
      continue;
    const PeakRates &rates = *type.rates;
    if (rates.half().value() == 0)
      errs() << toText(Diagnostic(Diag::NoUnitsOfPrecision, type.location).asWarning()
                       << "device type '" << type.name << "' states no rate in "
                       << nameOf(precision) << ", so that its layers are modelled as in fp32")
             << '\n';
    else if (precision == Precision::Bf16 && rates.bf16.value() == 0)
      errs() << toText(Diagnostic(Diag::NoUnitsOfPrecision, type.location)
                           .asWarning()
                           .note({}, "'--precision fp16' computes so on all devices")
                       << "device type '" << type.name << "' has fp16 units and none for bf16; its "
                       << "ranks compute in fp16, with scaled losses")
             << '\n';
  }
}

/// Notes which device types have modelled times that measured iterations correct.
void noteRatios(const Cluster &cluster, const ProfileDatabase &profiles, Precision precision) {
  std::set<std::string> noted;
  for (const DeviceType &type : cluster.types)
    if (const IterationRatio *found = profiles.iterations(type, precision);
        found && noted.insert(type.stated()).second)
      errs() << "note: modelled times of '" << type.stated() << "' in " << nameOf(precision)
             << " are multiplied by " << fixed(found->ratio, 2) << ", by " << found->runs
             << (found->runs == 1 ? " known throughput\n" : " known throughputs\n");
}

/// Whether layers with images of `graph` were measured on a GPU of `cluster`.
bool hasImagesOnGpu(Profile profile, const LayerGraph &graph, const Cluster &cluster) {
  StringSet<> gpus;
  for (const DeviceType &type : cluster.types)
    if (type.deviceClass == DeviceClass::Gpu)
      for (const std::string *name : {&type.name, &type.catalogue})
        gpus.insert(*name);
  erase_if(profile.entries,
           [&](const ProfileEntry &entry) { return !gpus.count(entry.deviceType); });
  const MemoryFormat other = profile.memoryFormat == MemoryFormat::ChannelsLast
                                 ? MemoryFormat::ChannelsFirst
                                 : MemoryFormat::ChannelsLast;
  return heterplan::dropOtherFormat(profile, other, graph) > 0;
}

Error readProfiles(const std::vector<std::string> &paths, Precision precision, MemoryFormat format,
                   const LayerGraph &graph, ProfileDatabase &database,
                   std::set<std::string> &measured) {
  std::vector<ProfileWarning> warnings;
  for (const std::string &path : paths) {
    Expected<Profile> profile = readProfile(path);
    if (!profile)
      return profile.takeError();
    warnOfPrecision(*profile, path, precision);
    dropOtherFormat(*profile, path, format, graph);
    for (const ProfileEntry &entry : profile->entries)
      measured.insert(entry.deviceType);
    append_range(warnings, database.add(*profile, path));
  }
  append_range(warnings, database.outliers());
  printWarnings(warnings, database.files());
  return Error::success();
}
} // namespace

Expected<MemoryFormat> formatFor(const CostOptions &options, const LayerGraph &graph,
                                 const Cluster &cluster, Precision precision, Samples batch) {
  std::set<MemoryFormat> found;
  for (const std::string &path : options.profiles) {
    Expected<Profile> profile = readProfile(path);
    if (!profile)
      return profile.takeError();
    if (profile->precision.value_or(precision) == precision &&
        hasImagesOnGpu(*profile, graph, cluster))
      found.insert(profile->memoryFormat);
  }
  return found.size() == 1 ? *found.begin() : fasterFormat(graph, cluster, precision, batch);
}

Expected<CostInputs> readCosts(const CostOptions &options, const LayerGraph &graph,
                               Optimizer optimizer, Precision precision, MemoryFormat format,
                               OptimizerKernels kernels) {
  Expected<Cluster> cluster = readWholeCluster(options);
  if (!cluster)
    return cluster.takeError();
  CostInputs inputs;
  inputs.cluster = std::move(*cluster);
  inputs.measured = std::make_unique<ProfileDatabase>();
  std::set<std::string> measured;
  if (Error error =
          readProfiles(options.profiles, precision, format, graph, *inputs.measured, measured))
    return error;
  if (isHalf(precision))
    warnOfMissingUnits(inputs.cluster, measured, precision);
  inputs.measured->applyLinks(inputs.cluster);
  inputs.measured->applyMemory(inputs.cluster);
  Cluster devices = inputs.cluster;
  if (graph.shardDegree > 1) {
    Expected<Cluster> groups = shardGroups(std::move(inputs.cluster), graph.shardDegree);
    if (!groups)
      return groups.takeError();
    inputs.cluster = std::move(*groups);
  }
  inputs.cluster = separateNodeClasses(std::move(inputs.cluster));
  inputs.roofline = std::make_unique<RooflineModel>(optimizer, precision, format);
  inputs.corrected =
      std::make_unique<IterationRatioModel>(*inputs.roofline, *inputs.measured, precision);
  noteRatios(inputs.cluster, *inputs.measured, precision);
  inputs.inferred = std::make_unique<LayerRegression>(*inputs.measured, graph);
  inputs.ofTypes = std::make_unique<ProfiledModel>(
      *inputs.measured, graph.model, options.requireMeasured ? nullptr : inputs.corrected.get(),
      inputs.inferred.get());
  if (kernels == OptimizerKernels::ForLoop)
    inputs.inForLoop = std::make_unique<ForLoopUpdates>(*inputs.ofTypes, optimizer);
  inputs.model =
      std::make_unique<SpeedModel>(inputs.inForLoop ? *inputs.inForLoop : *inputs.ofTypes);
  if (graph.degrees().size() > 1) {
    inputs.cluster = withShardTypes(std::move(inputs.cluster), graph.degrees());
    inputs.ofShards = std::move(inputs.model);
    inputs.model =
        std::make_unique<ShardTypesModel>(*inputs.ofShards, graph, devices, inputs.cluster);
  } else if (graph.shardDegree > 1) {
    inputs.ofShards = std::move(inputs.model);
    inputs.model = std::make_unique<ShardedModel>(*inputs.ofShards, devices, graph.shardDegree);
  }
  return inputs;
}

Expected<Plan> readPlanAt(StringRef path) {
  if (!path.endswith(".onnx") && !path.endswith(".layers.json"))
    return readPlan(path);
  return usageError("PLAN").note({}, "'heterplan import " + path.str() +
                                         "' shows it; 'heterplan compile' makes a plan for it")
         << "'" << path << "' is a model, not a plan";
}

std::string executablePath() { return sys::fs::getMainExecutable(nullptr, nullptr); }

std::string planDirectory(StringRef path) {
  if (sys::fs::is_directory(path))
    return path.str();
  StringRef parent = sys::path::parent_path(path);
  return parent.empty() ? "." : parent.str();
}

Expected<PlanInputs> readPlanInputs(StringRef planPath, StringRef modelPath,
                                    const ModelOptions &reading, const CostOptions &options) {
  Expected<Plan> plan = readPlanAt(planPath);
  if (!plan)
    return plan.takeError();
  const int degree = shardDegreeOf(*plan);
  const bool isUnequal = hasUnequalDegrees(*plan);
  const bool isByStage = isUnequal || plan->division.byStage;
  plan = withShardGroups(std::move(*plan));
  if (!plan)
    return plan.takeError();
  Expected<Model> model = readModel(modelPath, reading);
  if (!model)
    return model.takeError();
  if (isByStage) {
    Expected<Cluster> cluster = readWholeCluster(options);
    if (!cluster)
      return cluster.takeError();
    if (Error error = divideByDegree(*model, degreesOf(*cluster), plan->division.sequence))
      return error;
  }
  if (!isUnequal)
    if (Error error = divideLayers(*model, degree, plan->division.sequence))
      return error;
  if (isHalf(plan->precision))
    model->layers = underAutocast(std::move(model->layers));
  Expected<LayerGraph> layers = inOrderOf(*plan, std::move(model->layers));
  if (!layers)
    return layers.takeError();
  Expected<CostInputs> costs = readCosts(options, *layers, plan->optimizer, plan->precision,
                                         plan->memoryFormat, plan->optimizerKernels);
  if (!costs)
    return costs.takeError();
  return PlanInputs{std::move(*plan), std::move(*layers), std::move(model->graph),
                    std::move(model->divided), std::move(*costs)};
}

} // namespace heterplan
