#include "ProfileJob.h"

#include "Commands.h"
#include "Options.h"

#include "codegen/Resources.h"
#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "ir/onnx/group/ShardedLayers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr const char *coreType = "cpu-core"; // entry of the catalogue for one core
const char *const optimizers[] = {"sgd", "momentum", "adam"};
const char *const precisions[] = {"fp32", "tf32", "bf16"};
const char *const losses[] = {"cross_entropy", "token_cross_entropy", "mse", "none"};

/// "1,2,4", each at least 1; ascending, none twice.
Expected<std::vector<int64_t>> batchesOf(StringRef text) {
  SmallVector<StringRef, 8> parts;
  (text.empty() ? StringRef("1,2,4,8,16,32") : text).split(parts, ',');
  std::set<int64_t> batches;
  for (StringRef part : parts) {
    Expected<int64_t> batch =
        wholeOption("--batches", part.empty() ? "''" : part, 1, 1, largestBatch);
    if (!batch)
      return batch.takeError();
    batches.insert(*batch);
  }
  return std::vector<int64_t>(batches.begin(), batches.end());
}

/// "1,2,4"; ascending, none twice.
Expected<std::vector<int>> degreesOf(StringRef text) {
  SmallVector<StringRef, 8> parts;
  (text.empty() ? StringRef("1") : text).split(parts, ',');
  std::set<int> degrees;
  for (StringRef part : parts) {
    Expected<int64_t> degree =
        wholeOption("--shard-degrees", part.empty() ? "''" : part, 1, 1, mostShards);
    if (!degree)
      return degree.takeError();
    degrees.insert(int(*degree));
  }
  return std::vector<int>(degrees.begin(), degrees.end());
}

/// "0-3,8"
Expected<std::vector<int64_t>> coresOf(StringRef text) {
  SmallVector<StringRef, 8> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/!text.empty());
  std::vector<int64_t> cores;
  for (StringRef part : parts) {
    auto [first, last] = part.split('-');
    int64_t low = 0, high = 0;
    constexpr int64_t most = 1 << 16;
    if (!to_integer(first, low, 10) || low < 0 || low > most ||
        !to_integer(part.contains('-') ? last : first, high, 10) || high < low || high > most)
      return usageError("--cores") << "'" << text << "' is not accepted; give e.g. 0-3,8";
    for (; low <= high; ++low)
      cores.push_back(low);
  }
  return cores;
}

/// Number N of "cuda:N"; none for "cpu".
Expected<std::optional<int>> gpuOf(StringRef device) {
  StringRef number = device;
  int index = 0;
  if (device == "cpu")
    return std::nullopt;
  if (number.consume_front("cuda:") && to_integer(number, index, 10) && index >= 0)
    return index;
  return usageError("--device") << "'" << device << "' is not accepted; give cpu or cuda:N";
}

/// The name under which plans find the times: never another device's by default.
Expected<std::string> deviceTypeOf(const ProfileCommand &command, int64_t threads) {
  if (!command.deviceType.empty())
    return command.deviceType;
  if (command.device == "cpu" && threads == 1)
    return std::string(coreType);
  return usageError("--device-type")
         << "is needed: the name of this device type in cluster files or the catalogue (one CPU "
            "core is '"
         << coreType << "' by default)";
}

/// Kernels, or PyTorch: the former unless a script is wanted.
Error chooseEngine(const ProfileCommand &command, ProfileJob &job) {
  const bool isShared = job.degrees.back() > 1;
  job.native = command.script.empty() && !isShared;
  if (!command.engine.empty()) {
    Expected<size_t> engine = choiceOption("--engine", command.engine, {"native", "torch"});
    if (!engine)
      return engine.takeError();
    job.native = *engine == 0;
  }
  if (job.native && isShared)
    return notSupported("--shard-degrees above 1 by --engine native");
  if (job.native && !command.script.empty())
    return notSupported("--engine native with --emit-script");
  if (job.precision != Precision::Fp32 && job.native && !job.gpu)
    return notSupported("--precision by --engine native on a CPU");
  if (job.native && command.memoryFormat == "channels-last")
    return notSupported("--memory-format channels-last by --engine native");
  if (job.native)
    job.memoryFormat = MemoryFormat::ChannelsFirst;
  return Error::success();
}

/// Plans in 16 bits lay images out channels-last on GPUs.
MemoryFormat formatOf(size_t choice, const ProfileJob &job) {
  const bool isAuto = choice == 2;
  if (isAuto)
    return job.gpu && isHalf(job.precision) ? MemoryFormat::ChannelsLast
                                            : MemoryFormat::ChannelsFirst;
  return static_cast<MemoryFormat>(choice);
}

Error readSettings(const ProfileCommand &command, ProfileJob &job) {
  Expected<std::optional<int>> gpu = gpuOf(command.device);
  if (!gpu)
    return gpu.takeError();
  Expected<std::vector<int64_t>> batches = batchesOf(command.batches);
  if (!batches)
    return batches.takeError();
  Expected<std::vector<int>> degrees = degreesOf(command.shardDegrees);
  if (!degrees)
    return degrees.takeError();
  Expected<std::vector<int64_t>> cores = coresOf(command.cores);
  if (!cores)
    return cores.takeError();
  Expected<int64_t> count = wholeOption("--threads", command.threads,
                                        std::max<int64_t>(1, int64_t(cores->size())), 1, 4096);
  if (!count)
    return count.takeError();
  StringRef name = command.optimizer.empty() ? StringRef("sgd") : StringRef(command.optimizer);
  Expected<size_t> optimizer = choiceOption("--optimizer", name, optimizers);
  if (!optimizer)
    return optimizer.takeError();
  name = command.precision.empty() ? StringRef("fp32") : StringRef(command.precision);
  Expected<size_t> precision = choiceOption("--precision", name, precisions);
  if (!precision)
    return precision.takeError();
  name = command.memoryFormat.empty() ? StringRef("auto") : StringRef(command.memoryFormat);
  Expected<size_t> format =
      choiceOption("--memory-format", name, {"channels-first", "channels-last", "auto"});
  if (!format)
    return format.takeError();
  Expected<Seconds> budget = durationOption("--time-budget", command.timeBudget, Seconds(0));
  if (!budget)
    return budget.takeError();
  Expected<int64_t> rounds = wholeOption("--rounds", command.rounds, job.rounds, 1, 1000);
  if (!rounds)
    return rounds.takeError();
  job.threads = *count;
  job.batches = std::move(*batches);
  job.degrees = std::move(*degrees);
  job.cores = std::move(*cores);
  job.optimizer = static_cast<Optimizer>(*optimizer);
  job.gpu = *gpu;
  job.precision = static_cast<Precision>(*precision);
  job.memoryFormat = formatOf(*format, job);
  job.rounds = *rounds;
  job.timeBudget = *budget;
  return Error::success();
}

/// The options of the script that say the same.
std::vector<std::string> scriptSettings(const ProfileCommand &command, const ProfileJob &job) {
  std::string batches;
  for (int64_t batch : job.batches)
    batches += (batches.empty() ? "" : ",") + std::to_string(batch);
  std::vector<std::string> settings = {"--device",        command.device,
                                       "--device-type",   job.deviceType,
                                       "--batches",       batches,
                                       "--threads",       std::to_string(job.threads),
                                       "--optimizer",     nameOf(job.optimizer),
                                       "--precision",     precisions[size_t(job.precision)],
                                       "--memory-format", nameOf(job.memoryFormat),
                                       "--rounds",        std::to_string(job.rounds),
                                       "--output",        job.output};
  if (!command.cores.empty())
    settings.insert(settings.end(), {"--cores", command.cores});
  if (!command.timeBudget.empty())
    settings.insert(settings.end(), {"--time-budget", std::to_string(job.timeBudget.value())});
  return settings;
}

Error addSettings(const ProfileCommand &command, ProfileJob &job) {
  if (Error error = readSettings(command, job))
    return error;
  Expected<std::string> type = deviceTypeOf(command, job.threads);
  if (!type)
    return type.takeError();
  job.deviceType = *type;
  job.settings = scriptSettings(command, job);
  return chooseEngine(command, job);
}

/// A catalogued device, which tells the heavy layers from the light ones.
Expected<DeviceType> referenceKernel(StringRef type, bool gpu) {
  Expected<Catalogue> catalogue = readCatalogue();
  if (!catalogue)
    return catalogue.takeError();
  for (StringRef name : {type, StringRef(gpu ? "v100-sxm2-16gb" : coreType)})
    if (const DeviceType *found = catalogue->device(name))
      return *found;
  return Diagnostic(Diag::NoCatalogueEntry, {"profiles/devices", 0, 0, ""})
         << "the catalogue has no device '" << coreType << "'";
}

/// One sample forward and backward; 0 where nothing is known of the layer.
Seconds modelledTime(const Layer &layer, const DeviceType &device) {
  RooflineModel roofline(Optimizer::Sgd, Precision::Fp32);
  Expected<LayerCost> cost = roofline.price(layer, device, Samples(1));
  if (!cost) {
    consumeError(cost.takeError());
    return Seconds(0);
  }
  return cost->forward + cost->backward;
}

/// Adds the layers of each degree whose signatures no smaller degree has.
void addDistinctLayers(const DeviceType &device, ProfileJob &job) {
  StringMap<std::pair<JobShard *, size_t>> known;
  for (JobShard &shard : job.shards) {
    const LayerGraph &graph = job.layersOf(shard);
    for (int index = 0; index < graph.size(); ++index) {
      const Layer &layer = graph.layers[index];
      auto [place, isNew] =
          known.try_emplace(layer.signature, std::pair(&shard, shard.layers.size()));
      if (isNew)
        shard.layers.push_back(
            {layer.name, layer.signature, index, 0, modelledTime(layer, device)});
      JobLayer &like = place->second.first->layers[place->second.second];
      if (place->second.first == &shard)
        ++like.count;
      else if (!is_contained(like.also, shard.degree()))
        like.also.push_back(shard.degree());
    }
  }
}

void addModules(ProfileJob &job, JobShard &shard) {
  const LayerGraph &graph = job.layersOf(shard);
  std::vector<int> which;
  for (const JobLayer &layer : shard.layers)
    which.push_back(layer.index);
  shard.modules = buildLayerModules(job.graphOf(shard), graph, which, [&](int index, Error error) {
    job.notes.push_back("layer '" + graph.layers[index].name + "'" + degreeText(shard.degree()) +
                        " stays modelled: " + toText(std::move(error)));
  });
}

/// The loss that --loss names, or the usual one; none where there is nothing that it could be of.
Expected<std::optional<std::string>> lossOf(const ProfileCommand &command, const Graph &graph) {
  std::optional<std::string> usual = usualLoss(graph);
  if (command.loss.empty())
    return usual;
  Expected<size_t> loss = choiceOption("--loss", command.loss, losses);
  if (!loss)
    return loss.takeError();
  const StringRef name = losses[*loss];
  if (name == "none")
    return std::nullopt;
  if (!usual || (name != "mse" && *usual == "mse"))
    return usageError("--loss") << "the first output of the model is nothing that " << name
                                << " could be of";
  return name.str();
}

/// The layer that makes the output, once more, with the loss behind it. If it cannot be
/// generated, a note says so already.
void addLoss(const std::string &loss, const DeviceType &device, const ProfileJob &job,
             JobShard &shard) {
  const Graph &graph = job.graphOf(shard);
  const LayerGraph &layers = job.layersOf(shard);
  std::optional<int> index = outputLayer(graph, layers);
  if (!index)
    return;
  std::vector<StageModule> modules = buildLayerModules(
      graph, layers, {*index}, [](int, Error error) { consumeError(std::move(error)); });
  if (modules.empty())
    return;
  const std::vector<TensorId> &sends = modules.front().sends;
  const size_t output = llvm::find(sends, graph.outputs.front()) - sends.begin();
  if (output == sends.size())
    return;
  const Layer &layer = layers.layers[*index];
  shard.last = ProfiledLayer{std::move(modules.front()), layer.signature, 1,
                             modelledTime(layer, device), ProfiledLoss{loss, output}};
}

/// Takes the operators and layers of `model`, whole and divided among several devices.
Error takeModel(Model model, ProfileJob &job) {
  for (int degree : job.degrees) {
    JobShard &shard = job.shards.emplace_back();
    if (degree == 1)
      continue;
    Expected<ModelShard> divided =
        shardLayers(*model.graph, model.layers, degree, SequenceParallel::Auto);
    if (!divided)
      return divided.takeError();
    shard.divided = std::move(*divided);
  }
  job.graph = std::move(*model.graph);
  job.model = std::move(model.layers);
  return Error::success();
}

/// Adds what the torch engine needs.
Error addGenerated(const ProfileCommand &command, const DeviceType &device, ProfileJob &job) {
  Expected<std::optional<std::string>> loss = lossOf(command, job.graph);
  if (!loss)
    return loss.takeError();
  bool isGeneratable = false;
  for (JobShard &shard : job.shards) {
    addModules(job, shard);
    if (*loss)
      addLoss(**loss, device, job, shard);
    isGeneratable |= !shard.modules.empty();
  }
  if (!isGeneratable)
    return Diagnostic(Diag::NotGeneratable, {command.model, 0, 0, ""})
           << "no layer can be run by itself";
  return Error::success();
}

std::string defaultOutput(const ProfileCommand &command) {
  if (!command.output.empty())
    return command.output;
  return sys::path::stem(command.model).str() + ".profile.json";
}
} // namespace

namespace {
void addLayerOptions(CLI::App &command, ProfileCommand &options) {
  beginGroup(command, "Layers (MODEL)");
  addText(command, "--device", options.device, "DEVICE", "cpu or cuda:N");
  addText(command, "--device-type,--device-name", options.deviceType, "NAME",
          "name of this device in cluster files (one CPU core: cpu-core)");
  addText(command, "--engine", options.engine, "ENGINE",
          "native: library kernels and our own (default without --emit-script); torch: the "
          "generated PyTorch modules");
  addText(command, "--batches", options.batches, "1,2,4", "samples of a pass (1,2,4,8,16,32)");
  addText(command, "--threads", options.threads, "N", "CPU threads (as many as --cores, or 1)");
  addText(command, "--cores", options.cores, "LIST", "run on these CPU cores only: 0-3,8");
  addText(command, "--optimizer", options.optimizer, "NAME",
          "optimizer whose update is measured: sgd (default), momentum or adam");
  addText(command, "--precision", options.precision, "NAME",
          "fp32 (default), tf32 or bf16 (on CPUs only with --engine torch)");
  addText(command, "--memory-format", options.memoryFormat, "NAME",
          "layout of images with --engine torch: channels-first, channels-last, or auto (default): "
          "channels-last on a GPU in bf16");
  addText(
      command, "--loss", options.loss, "NAME",
      "loss that is measured with --engine torch: cross_entropy (default if the last axis of "
      "the first output may hold classes), token_cross_entropy, mse (default otherwise) or none");
  addText(
      command, "--shard-degrees", options.shardDegrees, "1,2,4",
      "measure the layers of one of so many devices that share every layer, without messages (1)");
  addText(command, "--rounds", options.rounds, "N",
          "measurements of each layer, in rounds over all layers (5)");
  addText(command, "--time-budget", options.timeBudget, "TIME",
          "end after this time (seconds, or with a unit, e.g. 10min); the layers that matter most "
          "are measured first; with --link about a minute unless given");
  addText(command, "--emit-script", options.script, "FILE",
          "write a script that measures on a machine with only Python and PyTorch");
}

void addLinkOptions(CLI::App &command, ProfileCommand &options) {
  beginGroup(command, "Links (--link)");
  addText(
      command, "--link", options.link, "NAME",
      "measure messages and all-reduces between ranks of this machine; NAME as in cluster files "
      "(links.profile.json)");
  addText(command, "--ranks", options.ranks, "N", "number of ranks (2)");
  addText(command, "--hosts", options.hosts, "A,B,...",
          "measure between these hosts, with one rank on each; start the command on all of them");
  addText(command, "--node-rank", options.nodeRank, "I", "index of this host in --hosts, from 0");
  addText(command, "--port", options.port, "P",
          "port of the first host at which the ranks rendezvous (29400)");
}

void addOtherMeasurements(CLI::App &command, ProfileCommand &options) {
  beginGroup(command, "Other measurements");
  command.add_flag("--machine", options.machine,
                   "write a cluster file of this machine (machine.yaml)");
  addText(command, "--memory", options.memory, "TYPE",
          "measure the memory that a rank uses beyond its tensors on this device; TYPE as in "
          "cluster files (memory.profile.json)");
  addTexts(command, "--check", options.check, "FILE...",
           "measure nothing; report stale, noisy and contradictory entries of these profiles")
      ->expected(1, -1);
  addText(command, "--max-age", options.mostDays, "DAYS", "with --check: older profiles fail");
}
} // namespace

void addProfileOptions(CLI::App &command, ProfileCommand &options) {
  addArgument(command, "MODEL", options.model, "a .onnx file")->required(false);
  addLayerOptions(command, options);
  addLinkOptions(command, options);
  addOtherMeasurements(command, options);
  addReadingOptions(command, options.reading);
  beginGroup(command, "Output");
  addText(command, "-o,--output", options.output, "FILE",
          "profile file (MODEL.profile.json); an existing one is continued");
  command.add_flag("--json", options.json, "print the outcome as JSON");
}

Expected<ProfileJob> readProfileJob(const ProfileCommand &command) {
  for (auto [name, text] : {std::pair("MODEL", &command.model), {"--device", &command.device}})
    if (text->empty())
      return usageError(name)
             << "is required to measure layers; --link, --memory, --machine and --check "
                "FILE... need none";
  ProfileJob job;
  job.output = defaultOutput(command);
  if (Error error = addSettings(command, job))
    return error;
  Expected<DeviceType> device = referenceKernel(job.deviceType, job.gpu.has_value());
  if (!device)
    return device.takeError();
  Expected<Model> model = readModel(command.model, command.reading);
  if (!model)
    return model.takeError();
  if (!model->graph)
    return usageError("MODEL") << "'" << command.model
                               << "' has no operators to run; give the .onnx file";
  if (Error error = takeModel(std::move(*model), job))
    return error;
  addDistinctLayers(*device, job);
  if (job.native && !command.loss.empty())
    return notSupported("--loss by --engine native");
  if (job.native)
    return job;
  if (Error error = addGenerated(command, *device, job))
    return error;
  return job;
}

Expected<std::string> scriptOf(const ProfileJob &job) {
  std::vector<ProfiledLayer> layers;
  for (const JobShard &shard : job.shards) {
    auto layer = shard.layers.begin();
    for (const StageModule &module : shard.modules) {
      while (layer->name != module.layers.front())
        ++layer;
      layers.push_back({.module = module,
                        .signature = layer->signature,
                        .count = layer->count,
                        .modelled = layer->modelled,
                        .local = shard.local(),
                        .also = layer->also});
    }
    if (!shard.last)
      continue;
    layers.push_back(*shard.last);
    layers.back().local = shard.local();
  }
  Expected<std::string> runtime = findRuntime(executablePath());
  if (!runtime)
    return runtime.takeError();
  return emitProfileScript(job.graph, layers, *runtime, job.settings);
}

} // namespace heterplan
