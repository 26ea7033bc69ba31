#include "codegen/StageModule.h"

#include "codegen/StageBuilder.h"
#include "support/Diagnostic.h"

using namespace llvm;

namespace heterplan {

Expected<std::vector<StageModule>> buildModules(const Graph &graph, const LayerGraph &layers,
                                                const Plan &plan) {
  StageSource model(graph, layers);
  std::vector<StageModule> modules;
  int position = 0;
  for (const Stage &stage : plan.stages) {
    int begin = position;
    for (const std::string &name : stage.layers) {
      if (position == layers.size() || layers.layers[position].name != name)
        return Diagnostic(Diag::InvalidPlan, {plan.model, 0, 0, ""})
               << "layer '" << name << "' of stage " << stage.id
               << " does not follow the one before";
      ++position;
    }
    auto module = StageBuilder(model, begin, position, stage.tables).build(stage.recompute);
    if (!module)
      return module.takeError();
    modules.push_back(std::move(*module));
  }
  if (position != layers.size())
    return Diagnostic(Diag::InvalidPlan, {plan.model, 0, 0, ""})
           << "no stage has layer '" << layers.layers[position].name << "'";
  return modules;
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
    auto module = StageBuilder(model, layer, layer + 1, tables, /*alone=*/true).build();
    if (module)
      modules.push_back(std::move(*module));
    else
      failed(layer, module.takeError());
  }
  return modules;
}

} // namespace heterplan
