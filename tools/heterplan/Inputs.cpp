#include "Inputs.h"

#include "Commands.h"
#include "Options.h"

#include "cost/Catalogue.h"
#include "cost/ProfiledModel.h"
#include "cost/Roofline.h"
#include "ir/onnx/Grouping.h"
#include "ir/onnx/Importer.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

namespace {
Expected<ImportOptions> importOptions(const ModelOptions &options) {
  ImportOptions result;
  if (!options.batchDim.empty()) {
    Expected<int64_t> axis = wholeOption("--batch-dim", options.batchDim, 0, 0, 7);
    if (!axis)
      return axis.takeError();
    result.batchDim = static_cast<int>(*axis);
  }
  for (const std::string &text : options.dims) {
    auto pair = assignmentOption("--dim", text);
    if (!pair)
      return pair.takeError();
    Expected<int64_t> size = wholeOption("--dim", pair->second, 0, 1, largestBatch);
    if (!size)
      return size.takeError();
    result.dims[pair->first] = *size;
  }
  return result;
}

Expected<Model> importModel(StringRef path, const ModelOptions &options) {
  Expected<ImportOptions> reading = importOptions(options);
  if (!reading)
    return reading.takeError();
  Expected<Graph> graph = importGraph(path, *reading);
  if (!graph)
    return graph.takeError();
  Expected<LayerGraph> layers = groupLayers(*graph);
  if (!layers)
    return layers.takeError();
  return Model{std::move(*graph), std::move(*layers)};
}
} // namespace

Expected<Model> readModel(StringRef path, const ModelOptions &options) {
  if (path.endswith(".onnx"))
    return importModel(path, options);
  if (!path.endswith(".json"))
    return usageError("MODEL") << "'" << path << "' is neither a .onnx nor a .layers.json file";
  Expected<LayerGraph> layers = readLayerGraph(path);
  if (!layers)
    return layers.takeError();
  return Model{std::nullopt, std::move(*layers)};
}

void addReadingOptions(CLI::App &command, ModelOptions &options) {
  addText(command, "--batch-dim", options.batchDim, "K", "axis of the inputs that counts samples");
  addTexts(command, "--dim", options.dims, "NAME=N", "value of a symbolic dimension");
}

void addCostOptions(CLI::App &command, CostOptions &options) {
  addText(command, "--cluster", options.cluster, "FILE", "cluster file (YAML)")->required();
  addTexts(command, "--profile", options.profiles, "FILE",
           "measured times; they take precedence over modelled ones");
  command.add_flag("--require-measured", options.requireMeasured,
                   "refuse times that no profile has, instead of modelling them");
}

namespace {
/// The cluster at `path` with what the hardware catalogue knows of it.
Expected<Cluster> readWholeCluster(StringRef path) {
  Expected<Cluster> cluster = readCluster(path);
  if (!cluster)
    return cluster.takeError();
  Expected<std::string> folder = findProfiles(executablePath());
  if (!folder)
    return folder.takeError();
  Expected<Catalogue> catalogue = Catalogue::load(*folder);
  if (!catalogue)
    return catalogue.takeError();
  if (Error error = catalogue->resolve(*cluster))
    return error;
  return cluster;
}

Error readProfiles(const std::vector<std::string> &paths, ProfileDatabase &database) {
  for (const std::string &path : paths) {
    Expected<Profile> profile = readProfile(path);
    if (!profile)
      return profile.takeError();
    for (const std::string &note : database.add(*profile, path))
      errs() << path << ": note: " << note << '\n';
  }
  return Error::success();
}
} // namespace

Expected<CostInputs> readCosts(const CostOptions &options, StringRef model, Optimizer optimizer,
                               Precision precision) {
  Expected<Cluster> cluster = readWholeCluster(options.cluster);
  if (!cluster)
    return cluster.takeError();
  CostInputs inputs;
  inputs.cluster = std::move(*cluster);
  inputs.measured = std::make_unique<ProfileDatabase>();
  if (Error error = readProfiles(options.profiles, *inputs.measured))
    return error;
  inputs.roofline = std::make_unique<RooflineModel>(optimizer, precision);
  inputs.model = std::make_unique<ProfiledModel>(
      *inputs.measured, model.str(), options.requireMeasured ? nullptr : inputs.roofline.get());
  return inputs;
}

std::string executablePath() { return sys::fs::getMainExecutable(nullptr, nullptr); }

std::string planDirectory(StringRef path) {
  if (sys::fs::is_directory(path))
    return path.str();
  StringRef parent = sys::path::parent_path(path);
  return parent.empty() ? "." : parent.str();
}

} // namespace heterplan
