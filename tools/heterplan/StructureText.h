// How the branches of a model are shown: an indented tree, JSON, clusters of a Graphviz graph.
#pragma once

#include "ir/SeriesParallel.h"
#include "support/JsonWriter.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// One line for a block; the layers of a series that stand beside each other share one, which names
/// the narrowest cut among them. A model without branches is one line. Sizes are for `batch`
/// samples.
void printStructure(llvm::raw_ostream &os, const Block &root, const LayerGraph &graph,
                    int64_t batch);

/// The attribute "structure" of the current object: the tree, with the bytes of its cuts.
void writeStructure(JsonWriter &json, const Block &root, const LayerGraph &graph, int64_t batch);

} // namespace heterplan
