#include "PlanningInputs.h"

#include "ir/Trainability.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
/// Whether an input grows with the number of samples.
bool hasBatch(const Graph &graph) {
  return any_of(graph.inputs, [&](TensorId id) {
    return any_of(graph.tensors[id].shape, [](const Dim &dim) { return dim.perSample != 0; });
  });
}
} // namespace

Expected<PlanningInputs> readPlanningInputs(const CompileOptions &options, const Request &request) {
  Expected<SearchOptions> searching = readSearchOptions(options, request);
  if (!searching)
    return searching.takeError();
  Expected<Model> model = readModel(options.model, options.reading);
  if (!model)
    return model.takeError();
  if (model->graph && !hasBatch(*model->graph))
    return Diagnostic(Diag::NoBatchDimension, {options.model, 0, 0, ""})
               .note({}, "only import takes --batch-dim none")
           << "no input counts samples, so there is no batch to plan for";
  if (model->graph)
    if (Error error = checkTrainable(*model->graph, options.model))
      return error;
  Expected<CostInputs> costs =
      readCosts(options.costs, model->layers, request.optimizer, request.precision);
  if (!costs)
    return costs.takeError();
  Expected<Problem> problem =
      Problem::create(std::move(model->layers), costs->cluster, *costs->model, request);
  if (!problem)
    return problem.takeError();
  return PlanningInputs{std::move(model->graph), std::move(*costs), std::move(*problem),
                        *searching};
}

} // namespace heterplan
