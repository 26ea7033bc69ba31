// The script that measures the layers of a model: one Python file with the layers as modules and
// the part of the runtime that runs them, so that the machine it is for needs only Python and
// PyTorch.
#pragma once

#include "codegen/StageModule.h"
#include "ir/Graph.h"
#include "ir/sharding/LocalGraph.h"
#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// The loss of a tensor that a layer makes.
struct ProfiledLoss {
  std::string name;  // of losses.py
  size_t output = 0; // which of the tensors that the layer's module sends
};

/// A layer to be measured, for all that have its signature; with a loss, for itself alone: what the
/// loss takes is part of it.
struct ProfiledLayer {
  StageModule module; // see buildLayerModules()
  std::string signature;
  int count = 1;      // layers of the model with this signature
  Seconds modelled{}; // one sample forward and backward; for the order of measuring
  std::optional<ProfiledLoss> loss = {};
  const LocalGraph *local = nullptr; // of its tensors, if several devices share it
  std::vector<int> also = {};        // other degrees at which a layer has this signature
  int degree() const { return local ? local->degree : 1; }
};

/// The layer that makes the first output of `graph`, if there is one.
std::optional<int> outputLayer(const Graph &graph, const LayerGraph &layers);
/// The loss that the runtime would take of the first output: cross entropy over a last axis of two
/// classes or more; none of what is not floating-point.
std::optional<std::string> usualLoss(const Graph &graph);

/// The text of the script. `runtime` is the folder of heterplan_runtime (see findRuntime()), whose
/// files become part of it; `defaults` are options that it takes when run without any, after which
/// those of its command line come. `graph`: of the whole model. At least one layer. Fails with
/// CannotRead when the runtime cannot be read. Equal inputs give equal bytes.
llvm::Expected<std::string> emitProfileScript(const Graph &graph,
                                              const std::vector<ProfiledLayer> &layers,
                                              llvm::StringRef runtime,
                                              const std::vector<std::string> &defaults);

} // namespace heterplan
