// Whether anything of a model can be trained, asked before a plan is searched: a model whose
// weights are integers would be planned, run and left as it was.
#pragma once

#include "ir/Graph.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Fails with NotSupported, located in `path`, where `graph` has quantised weights, no parameter,
/// or no output that a loss can be computed from: one to which a gradient leads from a parameter,
/// and of which each sample has a part of its own (not samples × samples).
llvm::Error checkTrainable(const Graph &graph, llvm::StringRef path);

/// Notes on the training of a model that passes checkTrainable(): parameters that are not float32,
/// or a first output from which the losses of the runtime cannot be computed.
std::vector<std::string> trainingNotes(const Graph &graph);

} // namespace heterplan
