#include "PlanningInputs.h"

#include "OptionChoices.h"
#include "Options.h"
#include "TensorParallel.h"

#include "ir/PlanShards.h"
#include "ir/Trainability.h"
#include "ir/onnx/batch/MixedSamples.h"
#include "ir/sharding/NotWithShards.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace heterplan {

namespace {
/// Whether an input grows with the number of samples.
bool hasBatch(const Graph &graph) {
  return any_of(graph.inputs, [&](TensorId id) {
    return any_of(graph.tensors[id].shape, [](const Dim &dim) { return dim.perSample != 0; });
  });
}

/// Fails if every device of `cluster` is free of charge: all plans would cost the same.
Error checkPrices(const Cluster &cluster, StringRef path) {
  if (any_of(cluster.types, [](const DeviceType &type) { return type.price > DollarsPerHour(0); }))
    return Error::success();
  return Diagnostic(Diag::Usage, {"", 0, 0, "--objective"})
             .note({}, "add e.g. price_per_hour: 2.42 to the device types of " + path.str() +
                           ", or give --objective throughput")
         << "the cluster has no prices, so cost cannot be the objective";
}

/// The checks that take no time.
Error checkInputs(const CompileOptions &options, const Request &request) {
  if (Error error = checkModelPath(options.model))
    return error;
  Expected<Cluster> cluster = readWholeCluster(options.costs);
  if (!cluster)
    return cluster.takeError();
  for (const std::string &profile : options.costs.profiles)
    if (!sys::fs::exists(profile))
      return Diagnostic(Diag::CannotRead, {profile, 0, 0, ""}) << "there is no such profile file";
  bool asksForCost = options.objective == nameOf(Objective::Cost) || options.pareto;
  if (asksForCost && request.objective == Objective::Cost)
    return checkPrices(*cluster, options.costs.cluster);
  return Error::success();
}

/// Whether the user says that no axis counts samples.
bool isWhole(const ModelOptions &reading) { return is_contained(reading.batchDims, "none"); }

/// A run of the model is a sample: each micro-batch has one, on one replica.
Expected<Request> wholeRuns(Request request) {
  int64_t runs = request.globalBatch.value();
  if (request.microBatches && request.microBatches != runs)
    return usageError("--micro-batches")
           << "with --batch-dim none a micro-batch is one run of the model: " << runs
           << " of them are in a batch of " << runs;
  request.microBatches = int(runs);
  return request;
}

/// Layers are divided as asked for, or as a layers file has them.
Error divideLayers(Model &model, const CompileOptions &options) {
  const bool searchesDegrees = options.tensorParallel == degreeByStage;
  SequenceParallel sequence = searchesDegrees ? SequenceParallel::Never : SequenceParallel::Auto;
  if (Error error = readChoice("--sequence-parallel", options.sequenceParallel, sequence))
    return error;
  if (searchesDegrees || options.dividesByStage) {
    Expected<Cluster> cluster = readWholeCluster(options.costs);
    if (!cluster)
      return cluster.takeError();
    if (Error error = checkBesideShards(options, Degrees::ByStage))
      return error;
    Error error = divideByDegree(model, degreesOf(*cluster), sequence);
    if (error || searchesDegrees)
      return error;
  }
  Expected<int> degree = options.tensorParallel.empty()
                             ? Expected<int>(model.layers.shardDegree)
                             : readTensorParallel(options.tensorParallel);
  if (!degree)
    return degree.takeError();
  const bool hasDegrees = model.layers.degrees().size() > 1;
  if (*degree == 1 && model.layers.shardDegree == 1 && !hasDegrees)
    return Error::success();
  const bool isChosen = hasDegrees && options.tensorParallel.empty(); // by the search
  if (Error error = checkBesideShards(options, isChosen ? Degrees::ByStage : Degrees::One))
    return error;
  if (isChosen)
    return Error::success();
  if (hasTables(model.layers)) // before the model is divided
    return notWithShards(NotWithShards::SparseTables);
  return divideLayers(model, *degree, sequence);
}

Error checkGraph(const Graph &graph, StringRef path, const ModelOptions &reading) {
  if (!isWhole(reading)) {
    if (!hasBatch(graph))
      return Diagnostic(Diag::NoBatchDimension, {path.str(), 0, 0, ""})
                 .note({}, "if a step is one run of the model: --batch-dim none")
             << "no input counts samples, so there is no batch to plan for";
    if (Error error = checkSamplesApart(graph, path))
      return error;
  }
  return checkTrainable(graph, path);
}
} // namespace

Error checkBesideShards(const CompileOptions &options, Degrees degrees) {
  const bool compares = !options.alternatives.empty();
  const bool isBurst = options.schedule == "burst" || !options.amplificationLimit.empty();
  for (auto [option, isGiven] :
       {std::pair(NotWithShards::Bursts, isBurst),
        {NotWithShards::SeveralDegreesPareto, options.pareto && degrees != Degrees::One},
        {NotWithShards::UnequalDegreesAlternatives, compares && degrees == Degrees::ByStage},
        {NotWithShards::LayerOrder, options.layerOrder == "narrow"},
        {NotWithShards::Without, !options.without.empty()},
        {NotWithShards::Background, !options.background.empty()}})
    if (isGiven)
      return notWithShards(option);
  return Error::success();
}

Expected<PlanningSources> readPlanningSources(const CompileOptions &options,
                                              const Request &stated) {
  Request request = stated;
  Expected<SearchOptions> searching = readSearchOptions(options, request);
  if (!searching)
    return searching.takeError();
  if (Error error = checkInputs(options, request)) // before a model of gigabytes is read
    return error;
  Expected<Model> model = readModel(options.model, options.reading);
  if (!model)
    return model.takeError();
  if (model->graph)
    if (Error error = checkGraph(*model->graph, options.model, options.reading))
      return error;
  if (model->graph && isWhole(options.reading)) {
    Expected<Request> whole = wholeRuns(std::move(request));
    if (!whole)
      return whole.takeError();
    request = std::move(*whole);
  }
  return PlanningSources{std::move(*model), std::move(request), std::move(*searching)};
}

Expected<PlanningInputs> planningInputsOf(const CompileOptions &options, PlanningSources sources) {
  auto &[model, request, searching] = sources;
  if (Error error = divideLayers(model, options))
    return error;
  if (isHalf(request.precision))
    model.layers = underAutocast(std::move(model.layers));
  if (options.ordered) {
    Expected<LayerGraph> ordered = inOrderOf(*options.ordered, std::move(model.layers));
    if (!ordered)
      return ordered.takeError();
    model.layers = std::move(*ordered);
  }
  Expected<Cluster> cluster = readWholeCluster(options.costs);
  if (!cluster)
    return cluster.takeError();
  request.deviceLimits =
      limitsOfGroups(std::move(request.deviceLimits), *cluster, model.layers.shardDegree);
  if (!request.memoryFormat) {
    Expected<MemoryFormat> format =
        formatFor(options.costs, model.layers, *cluster, request.precision, request.globalBatch);
    if (!format)
      return format.takeError();
    request.memoryFormat = *format;
  }
  Expected<CostInputs> costs =
      readCosts(options.costs, model.layers, request.optimizer, request.precision,
                *request.memoryFormat, request.optimizerKernels);
  if (!costs)
    return costs.takeError();
  Expected<Problem> problem =
      Problem::create(std::move(model.layers), costs->cluster, *costs->model, request);
  if (!problem)
    return problem.takeError();
  return PlanningInputs{std::move(model.graph), std::move(model.divided), std::move(*costs),
                        std::move(*problem), std::move(searching)};
}

Expected<PlanningInputs> readPlanningInputs(const CompileOptions &options, const Request &request) {
  Expected<PlanningSources> sources = readPlanningSources(options, request);
  return sources ? planningInputsOf(options, std::move(*sources)) : sources.takeError();
}

} // namespace heterplan
