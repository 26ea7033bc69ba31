// Exporters leave nodes behind that hand on what they are given: reshapes to the shape that is
// already there, a selection of everything in order (attention masks that torch.vmap indexes),
// logic with a constant that decides nothing, masks that hide nothing, chains of reshapes. Without
// them layers are not held together by values that only seem to mix samples, and the generated code
// is what one would write.
#pragma once

#include "ir/onnx/fold/Evaluation.h"

namespace heterplan {

/// Redirects the users of nodes that change nothing, and rewrites others as the one Reshape, Expand
/// or Transpose that they amount to. `evaluations` are those of `graph` at several batches. Nodes
/// that nobody uses any more stay; so do those that compute an output of the graph.
void removeIdentities(Graph &graph, llvm::ArrayRef<GraphEvaluation> evaluations);

} // namespace heterplan
