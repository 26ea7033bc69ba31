#include "codegen/StageModule.h"

#include "codegen/StageBuilder.h"
#include "ir/StageGraph.h"
#include "support/Diagnostic.h"

using namespace llvm;

namespace heterplan {

namespace {
/// The layer at which each stage begins, and the number of layers.
Expected<std::vector<int>> beginsOf(const LayerGraph &layers, const Plan &plan) {
  std::vector<int> begins;
  int position = 0;
  for (const Stage &stage : plan.stages) {
    begins.push_back(position);
    for (const std::string &name : stage.layers) {
      if (position == layers.size() || layers.layers[position].name != name)
        return Diagnostic(Diag::InvalidPlan, {plan.model, 0, 0, ""})
               << "layer '" << name << "' of stage " << stage.id
               << " does not follow the one before";
      ++position;
    }
  }
  if (position != layers.size())
    return Diagnostic(Diag::InvalidPlan, {plan.model, 0, 0, ""})
           << "no stage has layer '" << layers.layers[position].name << "'";
  begins.push_back(position);
  return begins;
}

std::vector<int> together(ArrayRef<int> links, ArrayRef<std::vector<int>> crossing) {
  std::vector<int> result;
  for (int link : links)
    result.insert(result.end(), crossing[link].begin(), crossing[link].end());
  return result;
}

/// The tensors that `layer` reads from earlier layers and makes for later ones.
StageTensors tensorsOf(const LayerGraph &layers, int layer) {
  StageTensors result;
  for (size_t i = 0; i < layers.tensors.size(); ++i) {
    const LayerTensor &tensor = layers.tensors[i];
    if (is_contained(tensor.consumers, layer))
      result.received.push_back(static_cast<int>(i));
    if (tensor.producer == layer && !tensor.consumers.empty())
      result.sent.push_back(static_cast<int>(i));
  }
  return result;
}
} // namespace

Expected<std::vector<StageModule>> buildModules(const Graph &graph, const LayerGraph &layers,
                                                const Plan &plan) {
  Expected<std::vector<int>> begins = beginsOf(layers, plan);
  if (!begins)
    return begins.takeError();
  StageGraph stages(plan.stages);
  auto crossing = stages.route(layers, ArrayRef<int>(*begins).drop_back());
  if (!crossing)
    return crossing.takeError();
  StageSource model(graph, layers);
  std::vector<StageModule> modules;
  for (int s = 0; s < stages.stages(); ++s) {
    StageTensors tensors{together(stages.into(s), *crossing), together(stages.outOf(s), *crossing)};
    const Stage &stage = plan.stages[s];
    const bool gathers = stage.sharding.gathersParameters() && stage.replicas.size() > 1;
    auto module = StageBuilder(model, (*begins)[s], (*begins)[s + 1], tensors, stage.tables,
                               /*alone=*/false, gathers)
                      .build(stage.recompute);
    if (!module)
      return module.takeError();
    modules.push_back(std::move(*module));
  }
  return modules;
}

Expected<DividedStages> buildDividedModules(const Graph &whole, const DividedModel &divided,
                                            const Plan &plan) {
  auto stages = buildModules(whole, divided.wholeLayers, plan);
  if (!stages)
    return stages.takeError();
  DividedStages result{*stages, std::vector<const LocalGraph *>(stages->size()), *stages};
  for (const ModelShard &shard : divided.shards) {
    const int degree = shard.local.degree;
    auto isOfDegree = [&](const Stage &stage) { return stage.sharding.degree == degree; };
    if (none_of(plan.stages, isOfDegree))
      continue;
    auto modules = buildModules(shard.local.graph, shard.layers, plan);
    if (!modules)
      return modules.takeError();
    for (size_t i = 0; i < plan.stages.size(); ++i)
      if (isOfDegree(plan.stages[i])) {
        result.shards[i] = std::move((*modules)[i]);
        result.locals[i] = &shard.local;
      }
  }
  return result;
}

std::vector<StageModule> buildLayerModules(const Graph &graph, const LayerGraph &layers,
                                           ArrayRef<int> which,
                                           function_ref<void(int, Error)> failed) {
  StageSource model(graph, layers);
  std::vector<StageModule> modules;
  for (int layer : which) {
    std::vector<TableShards> tables;
    for (const SparseTable &table : layers.layers[layer].tables)
      tables.push_back({table.parameter, {table.rows}});
    auto module = StageBuilder(model, layer, layer + 1, tensorsOf(layers, layer), tables,
                               /*alone=*/true)
                      .build();
    if (module)
      modules.push_back(std::move(*module));
    else
      failed(layer, module.takeError());
  }
  return modules;
}

} // namespace heterplan
