// Whether a directory holds what its plan says: the files of plan, model and cluster are made anew
// and compared, so that a manifest that was changed with them does not help.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/Program.h"
#include "ir/sharding/DividedModel.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// A sentence for each file of ranks/, and each launcher that there is, that is not what `program`
/// gives.
std::vector<std::string> changedInstructions(llvm::StringRef directory, const Program &program);

/// The differences of model.py from the text that the plan gives. Fails with NotGeneratable.
llvm::Expected<std::vector<std::string>> changedModel(llvm::StringRef directory, const Graph &graph,
                                                      const LayerGraph &layers, const Plan &plan);
/// The differences of model.py and whole_model.py of a model whose layers several devices share, of
/// which `plan` names all.
llvm::Expected<std::vector<std::string>> changedModel(llvm::StringRef directory, const Graph &whole,
                                                      const DividedModel &divided,
                                                      const Plan &plan);

/// "heterplan 0.1.0": what wrote `directory`; empty where it does not say.
std::string writerOf(llvm::StringRef directory);

} // namespace heterplan
