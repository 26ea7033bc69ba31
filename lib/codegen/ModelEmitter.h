// model.py: the stages of a plan as readable PyTorch modules. The runtime imports it; the fields
// that it reads are documented at the head of the file itself.
#pragma once

#include "codegen/StageModule.h"
#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// The text of model.py. Equal inputs give equal bytes. Errors as buildModules().
llvm::Expected<std::string> emitModel(const Graph &graph, const LayerGraph &layers,
                                      const Plan &plan);
/// The text of model.py from stages that are built already. Fails with NotGeneratable if the text
/// is not valid Python.
llvm::Expected<std::string> emitModel(const Graph &graph, const std::vector<StageModule> &stages);
/// The text of model.py for the shards of `whole`. Every shard runs it. It states the slice of each
/// tensor, and the first values of parameters are those of `whole`.
llvm::Expected<std::string> emitModel(const DividedStages &stages, const Graph &whole);

} // namespace heterplan
