// A plan in the words of torchtitan: the fields of its configuration that say how a model is
// divided.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Program.h"

#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// A Python module with a function that sets these fields on a configuration of torchtitan 0.3
/// (torchtitan/config/configs.py). `graph` has the layers of the plan, with the names of their
/// parameters. NotSupported with the reason if torchtitan cannot run the plan as it stands: it has
/// one number of replicas for all stages, equal shares, whole modules in stages, and ranks stage by
/// stage.
llvm::Expected<std::string> emitTorchTitanConfig(const Plan &plan, const Program &program,
                                                 const LayerGraph &graph);

} // namespace heterplan
