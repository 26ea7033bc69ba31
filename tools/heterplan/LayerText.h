// How a LayerGraph is shown: a table of its layers with totals, the same facts as JSON, a graph.
#pragma once

#include "ir/Blocks.h"
#include "ir/LayerGraph.h"
#include "ir/onnx/group/Counts.h"
#include "support/JsonWriter.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// Totals of a model for one sample.
struct LayerTotals {
  double parameters = 0, macs = 0; // see LayerCounts
  Flops forward{}, backward{};
  Bytes activations{};
};
LayerTotals totalsOf(const LayerGraph &graph, llvm::ArrayRef<LayerCounts> counts);

/// Whether a table lists each layer of repeated blocks, or one block under a row with the count.
enum class Repetitions { Listed, Counted };
constexpr int mostListedLayers = 40; // smaller models list every layer in any case

/// Calls `rows.layer(i)` for each layer of `graph`, or `rows.block(block)` once for repeated ones.
template <typename Rows>
void addRows(Rows &rows, const LayerGraph &graph, Repetitions repetitions) {
  std::vector<RepeatedBlock> blocks;
  if (repetitions == Repetitions::Counted && graph.size() > mostListedLayers)
    blocks = repeatedBlocks(graph);
  int next = 0;
  for (const RepeatedBlock &block : blocks) {
    for (; next < block.first; ++next)
      rows.layer(next);
    rows.block(block);
    next += block.layers * block.count;
  }
  for (; next < graph.size(); ++next)
    rows.layer(next);
}

/// Prints a row for each layer and the totals. Figures that grow with the batch are for `batch`
/// samples.
void printLayers(llvm::raw_ostream &os, const LayerGraph &graph, llvm::ArrayRef<LayerCounts> counts,
                 int64_t batch, Repetitions repetitions);
/// One line for the sparse tables, if there are any.
void printTables(llvm::raw_ostream &os, const LayerGraph &graph);
/// One line for each run of identical blocks.
void printBlocks(llvm::raw_ostream &os, const LayerGraph &graph);
void writeBlocks(JsonWriter &json, const LayerGraph &graph);
/// The same facts as attributes "batch", "layers" and "totals" of the current object.
void writeLayers(JsonWriter &json, const LayerGraph &graph, llvm::ArrayRef<LayerCounts> counts,
                 int64_t batch);
/// Layers and the tensors between them as a Graphviz graph; branches are clusters.
void printLayersDot(llvm::raw_ostream &os, const LayerGraph &graph);

/// `text` as a DOT string, with its quotes.
std::string dotQuoted(llvm::StringRef text);

} // namespace heterplan
