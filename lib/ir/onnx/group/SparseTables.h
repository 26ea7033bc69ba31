// Which parameters are sparse tables: embedding tables of recommendation and language models, of
// which a sample reads a few rows. A layer knows them as facts (LayerGraph.h).
#pragma once

#include "ir/onnx/group/Operators.h"

#include <vector>

namespace heterplan {

/// Lists each sparse table in the first of `layers` that uses it. A parameter is one when it is a
/// matrix that is used for nothing but lookups of rows (Gather along axis 0), by indices that the
/// samples bring and that no layer computes; when even a thousand samples leave rows untouched; and
/// when it has a mebibyte, without which an exchange of messages does not pay. `layerOf`: the layer
/// of each node; `ofInputs`: the nodes that depend on inputs of the model only.
void addSparseTables(const GraphFacts &facts, llvm::ArrayRef<int> layerOf,
                     const std::vector<bool> &ofInputs, std::vector<Layer> &layers);

} // namespace heterplan
