#include "TensorParallel.h"

#include "Options.h"

#include "ir/PlanShards.h"
#include "ir/onnx/group/ShardedLayers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace heterplan {

Expected<int> readTensorParallel(const std::string &text) {
  int degree = 1;
  if (text.empty() ||
      (!StringRef(text).getAsInteger(10, degree) && degree >= 1 && degree <= mostShards))
    return degree;
  return usageError("--tensor-parallel")
         << "'" << text << "' is not accepted; give auto, by-stage, or a whole number from 1 to "
         << mostShards;
}

std::vector<int> degreesOf(const Cluster &cluster) {
  int most = 1;
  for (const NodeGroup &node : cluster.nodes)
    for (const auto &[type, count] : node.devices)
      most = std::max(most, count);
  std::vector<int> degrees;
  for (int degree = 1; degree <= std::min(most, mostShards); degree *= 2)
    degrees.push_back(degree);
  return degrees;
}

namespace {
/// Frees the values of parameters, which are those of the whole model.
void dropValues(Graph &local) {
  for (GraphTensor &tensor : local.tensors)
    if (tensor.role == TensorRole::Parameter) {
      tensor.data.reset();
      tensor.external.reset();
    }
}

/// The part of `model` that one of `degree` devices computes.
Expected<ModelShard> shardOf(const Model &model, int degree, SequenceParallel sequence) {
  Expected<ModelShard> shard = shardLayers(*model.graph, model.layers, degree, sequence);
  if (shard)
    dropValues(shard->local.graph);
  return shard;
}
} // namespace

bool hasTables(const LayerGraph &layers) {
  return any_of(layers.layers, [](const Layer &layer) { return !layer.tables.empty(); });
}

Error checkOperators(const Model &model) {
  if (!model.graph)
    return usageError("--tensor-parallel")
           << "layers are divided by their operators, and a layers file has none; give the .onnx "
              "file";
  if (model.graph->nodes.empty())
    return usageError("--tensor-parallel") << "the model has no operators to divide";
  return Error::success();
}

Error divideByDegree(Model &model, ArrayRef<int> degrees, SequenceParallel sequence) {
  if (model.layers.degrees().size() > 1)
    return Error::success();
  if (Error error = checkOperators(model))
    return error;
  std::vector<int> several;
  copy_if(degrees, std::back_inserter(several), [](int degree) { return degree > 1; });
  std::vector<ModelShard> shards =
      shardLayers(*model.graph, model.layers, several, sequence, [](int degree, Error error) {
        errs() << "note: no stages of " << degree
               << " devices that share layers: " << toText(std::move(error)) << '\n';
      });
  for (ModelShard &shard : shards)
    dropValues(shard.local.graph);
  LayerGraph layers = withShards(model.layers, shards);
  layers.division = {.byStage = true, .sequence = sequence};
  model.divided = DividedModel{std::move(shards), std::move(model.layers)};
  model.layers = std::move(layers);
  return Error::success();
}

Error divideLayers(Model &model, int degree, SequenceParallel sequence) {
  if (degree == model.layers.shardDegree && model.layers.degrees().size() == 1)
    return Error::success();
  if (const std::vector<int> stated = model.layers.degrees(); stated.size() > 1) {
    if (!is_contained(stated, degree))
      return usageError("--tensor-parallel")
             << "the layers file has no layers of one of " << degree << " devices";
    model.layers = model.layers.ofDegree(degree);
    if (degree == 1)
      model.divided.reset();
    else if (model.divided)
      erase_if(model.divided->shards,
               [&](const ModelShard &each) { return each.local.degree != degree; });
    return Error::success();
  }
  if (model.layers.shardDegree > 1)
    return usageError("--tensor-parallel")
           << "the layers file has the layers of one of " << model.layers.shardDegree
           << " devices, not of one of " << degree;
  if (Error error = checkOperators(model))
    return error;
  Expected<ModelShard> shard = shardOf(model, degree, sequence);
  if (!shard)
    return shard.takeError();
  LayerGraph layers = shard->layers;
  model.divided = DividedModel{{std::move(*shard)}, std::move(model.layers)};
  model.layers = std::move(layers);
  return Error::success();
}

Expected<LayerGraph> withDegrees(const Model &model, ArrayRef<int> degrees,
                                 SequenceParallel sequence) {
  if (!model.graph)
    return model.layers;
  std::vector<ModelShard> shards;
  for (int degree : degrees) {
    if (degree == 1)
      continue;
    Expected<ModelShard> shard = shardOf(model, degree, sequence);
    if (!shard)
      return shard.takeError();
    shards.push_back(std::move(*shard));
  }
  return withShards(model.layers, shards);
}

std::string shardDegreeText(const Plan &plan) {
  int degree = shardDegreeOf(plan);
  if (hasUnequalDegrees(plan)) {
    const std::string degrees =
        join(map_range(plan.stages,
                       [](const Stage &stage) { return std::to_string(stage.sharding.degree); }),
             ", ");
    return "by stage, replicas of " + degrees + " devices that share every layer";
  }
  if (degree == 1)
    return "";
  return "each replica is " + std::to_string(degree) + " devices that share every layer";
}

} // namespace heterplan
