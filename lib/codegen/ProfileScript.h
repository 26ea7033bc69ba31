// The script that measures the layers of a model: one Python file with the layers as modules and
// the part of the runtime that runs them, so that the machine it is for needs only Python and
// PyTorch.
#pragma once

#include "codegen/StageModule.h"
#include "ir/Graph.h"
#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// A layer to be measured, for all that have its signature.
struct ProfiledLayer {
  StageModule module; // see buildLayerModules()
  std::string signature;
  int count = 1;      // layers of the model with this signature
  Seconds modelled{}; // one sample forward and backward; for the order of measuring
};

/// The text of the script. `runtime` is the folder of heterplan_runtime (see findRuntime()), whose
/// files become part of it; `defaults` are options that it takes when run without any, after which
/// those of its command line come. At least one layer. Fails with CannotRead when the runtime
/// cannot be read. Equal inputs give equal bytes.
llvm::Expected<std::string> emitProfileScript(const Graph &graph,
                                              const std::vector<ProfiledLayer> &layers,
                                              llvm::StringRef runtime,
                                              const std::vector<std::string> &defaults);

} // namespace heterplan
