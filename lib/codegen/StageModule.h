// One stage of a plan as a module: what enters and leaves it, what it stores, the text of its
// forward function.
#pragma once

#include "codegen/Scope.h"
#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/sharding/DividedModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Layers of a stage whose activations are computed again in the backward pass: a method of its
/// module.
struct StageSegment {
  std::string firstLayer;
  std::vector<std::string> arguments, results; // Python names
  std::string body;
  bool usesStored = false; // parameters, buffers or constants
};

struct StageModule {
  std::vector<std::string> layers;
  std::vector<TensorId> inputs;     // of the model, that it reads
  std::vector<TensorId> receives;   // from other stages, link by link
  std::vector<TensorId> sends;      // to other stages, link by link, or the outputs of the model
  std::vector<TensorId> parameters; // in order of first use
  std::vector<TensorId> frozen;     // parameters that are not trained
  std::vector<TensorId> buffers;
  std::vector<TensorId> tables; // sparse ones, that replicas share
  std::vector<TableLookup> lookups;
  std::vector<TensorId> literals;     // constants written into the module
  std::vector<TensorId> constants;    // constants kept in the file of weights
  std::string body;                   // of forward()
  std::string indicesBody;            // of indices(), which returns those of `lookups`
  std::vector<StageSegment> segments; // called by `body`; none: nothing is computed again
  /// The parameters that each layer is the first to use, if the replicas divide parameters.
  std::vector<std::vector<TensorId>> gathered;
  bool usesStored = false;                          // by `body`: parameters, buffers or constants
  bool usesHelpers = false;                         // of heterplan_runtime.operators
  std::vector<std::string> arguments, results;      // Python names of receives and inputs, of sends
  std::vector<std::string> inputArguments, indices; // of inputs alone, of what indices() returns
};

/// The stages of `plan`. Fails with InvalidPlan where its layers are not those of `layers` in
/// order or `layers` does not belong to `graph`, with NotGeneratable where PyTorch lacks an
/// operator.
llvm::Expected<std::vector<StageModule>> buildModules(const Graph &graph, const LayerGraph &layers,
                                                      const Plan &plan);

/// The stages of a plan whose layers several devices share.
struct DividedStages {
  std::vector<StageModule> shards;        // of the graph of the stage's degree
  std::vector<const LocalGraph *> locals; // by stage: that graph; null: degree 1
  std::vector<StageModule> whole;         // of the whole model
};

/// The stages of `plan` on `divided`, which is `whole` divided by the degrees of its stages. Fails
/// as buildModules() does.
llvm::Expected<DividedStages> buildDividedModules(const Graph &whole, const DividedModel &divided,
                                                  const Plan &plan);

/// Each layer of `which` (indices into `layers`) as a module of its own, to be measured: it
/// receives what it reads of earlier layers and sends what it makes for later ones, and the outputs
/// of the model that it computes. A layer that cannot be generated is left out and handed to
/// `failed`, with the error that buildModules() gives.
std::vector<StageModule> buildLayerModules(const Graph &graph, const LayerGraph &layers,
                                           llvm::ArrayRef<int> which,
                                           llvm::function_ref<void(int, llvm::Error)> failed);

} // namespace heterplan
