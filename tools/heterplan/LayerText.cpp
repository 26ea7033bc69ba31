#include "LayerText.h"

#include "Table.h"

#include "ir/Blocks.h"
#include "ir/SeriesParallel.h"
#include "support/Text.h"

using namespace llvm;

namespace heterplan {

namespace {
/// Bytes that leave each layer's position: what a stage boundary after layer i would carry.
std::vector<Bytes> cutBytes(const LayerGraph &graph, int64_t batch) {
  std::vector<Bytes> result;
  std::vector<Flow> flows = cutFlows(graph);
  for (const Flow &flow : ArrayRef<Flow>(flows).drop_front())
    result.push_back(flow.forward * double(batch) + flow.fixed);
  return result;
}

/// The rows of a table of layers. Blocks that repeat are listed once under a row with their count.
class LayerRows {
public:
  LayerRows(const LayerGraph &graph, ArrayRef<LayerCounts> counts, int64_t batch)
      : graph(graph), counts(counts), samples(double(batch)), cuts(cutBytes(graph, batch)) {}

  void layer(int index, StringRef indent = "") {
    const Layer &layer = graph.layers[index];
    table.row({indent.str() + shortened(layer.name), nameOf(layer.kind),
               readable(layer.forwardFlops.value() * samples),
               readable(layer.backwardFlops.value() * samples), readable(counts[index].parameters),
               readable(layer.activationBytes * samples), readable(cuts[index])});
  }

  void block(const RepeatedBlock &block) {
    table.row({std::to_string(block.count) + " × these layers:", "", "", "", "", "", ""});
    for (int index = block.first; index < block.first + block.layers; ++index)
      layer(index, "  ");
  }

  void print(raw_ostream &os) {
    LayerTotals totals = totalsOf(graph, counts);
    table.rule();
    table.row({std::to_string(graph.size()) + (graph.size() == 1 ? " layer" : " layers"), "",
               readable(totals.forward.value() * samples),
               readable(totals.backward.value() * samples), readable(totals.parameters),
               readable(totals.activations * samples), ""});
    table.print(os);
  }

private:
  Table table{{"layer", "kind", ">FLOP fwd", ">FLOP bwd", ">parameters", ">activations", ">cut"}};
  const LayerGraph &graph;
  ArrayRef<LayerCounts> counts;
  double samples;
  std::vector<Bytes> cuts;
};
} // namespace

LayerTotals totalsOf(const LayerGraph &graph, ArrayRef<LayerCounts> counts) {
  LayerTotals totals;
  for (const LayerCounts &count : counts) {
    totals.parameters += count.parameters;
    totals.macs += count.macs;
  }
  for (const Layer &layer : graph.layers) {
    totals.forward += layer.forwardFlops;
    totals.backward += layer.backwardFlops;
    totals.activations += layer.activationBytes;
  }
  return totals;
}

void printLayers(raw_ostream &os, const LayerGraph &graph, ArrayRef<LayerCounts> counts,
                 int64_t batch, Repetitions repetitions) {
  LayerRows rows(graph, counts, batch);
  addRows(rows, graph, repetitions);
  rows.print(os);
  LayerTotals totals = totalsOf(graph, counts);
  os << '\n'
     << graph.model << ": " << readable(totals.parameters) << " parameters, "
     << readable(totals.macs) << " multiply-accumulates forward a sample; figures above are for "
     << batch << (batch == 1 ? " sample\n" : " samples\n");
}

void printTables(raw_ostream &os, const LayerGraph &graph) {
  int64_t tables = 0, lookups = 0;
  Bytes size{}, read{};
  for (const Layer &layer : graph.layers) {
    size += layer.tableBytes();
    read += layer.lookupBytes();
    for (const SparseTable &table : layer.tables) {
      ++tables;
      lookups += table.lookups;
    }
  }
  if (tables)
    os << tables << (tables == 1 ? " sparse table of " : " sparse tables of ") << readable(size)
       << ", of which a sample reads " << lookups << (lookups == 1 ? " row (" : " rows (")
       << readable(read) << ")\n";
}

void printBlocks(raw_ostream &os, const LayerGraph &graph) {
  for (const RepeatedBlock &block : repeatedBlocks(graph))
    os << block.count << " x block of " << block.layers
       << (block.layers == 1 ? " layer, from " : " layers, from ")
       << shortened(graph.layers[block.first].name) << '\n';
}

void writeBlocks(JsonWriter &json, const LayerGraph &graph) {
  json.attributeArray("blocks", [&] {
    for (const RepeatedBlock &block : repeatedBlocks(graph))
      json.object([&] {
        json.attribute("first", graph.layers[block.first].name);
        json.attribute("layers", block.layers);
        json.attribute("count", block.count);
      });
  });
}

void writeLayers(JsonWriter &json, const LayerGraph &graph, ArrayRef<LayerCounts> counts,
                 int64_t batch) {
  std::vector<Bytes> cuts = cutBytes(graph, batch);
  auto samples = double(batch);
  auto facts = [&](double parameters, Flops forward, Flops backward, Bytes activations) {
    json.attribute("parameterCount", parameters);
    json.attribute("forwardFlops", forward.value() * samples);
    json.attribute("backwardFlops", backward.value() * samples);
    json.attribute("activationBytes", activations.value() * samples);
  };
  json.attribute("batch", batch);
  json.attributeArray("layers", [&] {
    for (int index = 0; index < graph.size(); ++index)
      json.object([&] {
        const Layer &layer = graph.layers[index];
        json.attribute("name", layer.name);
        json.attribute("kind", nameOf(layer.kind));
        facts(counts[index].parameters, layer.forwardFlops, layer.backwardFlops,
              layer.activationBytes);
        json.attribute("parameterBytes", layer.parameterBytes.value());
        json.attribute("cutBytes", cuts[index].value());
        json.attribute("tableBytes", layer.tableBytes().value());
      });
  });
  LayerTotals totals = totalsOf(graph, counts);
  json.attributeObject("totals", [&] {
    json.attribute("layers", graph.size());
    facts(totals.parameters, totals.forward, totals.backward, totals.activations);
    json.attribute("parameterBytes", totalParameterBytes(graph).value());
    json.attribute("forwardMacs", totals.macs * samples);
  });
}

namespace {
/// A cluster for each branch of a parallel block, so that branches are drawn beside each other.
void printNodes(raw_ostream &os, const LayerGraph &graph, const Block &block, unsigned depth,
                int &clusters) {
  if (block.kind == Block::Kind::Layer) {
    const Layer &layer = graph.layers[block.layer];
    os.indent(2 * depth) << "l" << block.layer
                         << " [label=" << dotQuoted(layer.name + "\n" + nameOf(layer.kind))
                         << "];\n";
    return;
  }
  for (const Block &child : block.children) {
    bool cluster = block.kind == Block::Kind::Parallel || child.kind == Block::Kind::Parallel;
    if (cluster && child.kind != Block::Kind::Layer) {
      os.indent(2 * depth) << "subgraph cluster_" << clusters++ << " {\n";
      os.indent(2 * depth + 2) << "style="
                               << (child.kind == Block::Kind::Parallel ? "dashed" : "dotted")
                               << ";\n";
      printNodes(os, graph, child, depth + 1, clusters);
      os.indent(2 * depth) << "}\n";
    } else {
      printNodes(os, graph, child, depth, clusters);
    }
  }
}
} // namespace

void printLayersDot(raw_ostream &os, const LayerGraph &graph) {
  os << "digraph layers {\n  node [shape=box];\n";
  int clusters = 0;
  printNodes(os, graph, decompose(graph), 1, clusters);
  for (const LayerTensor &tensor : graph.tensors)
    for (int consumer : tensor.consumers)
      os << "  l" << tensor.producer << " -> l" << consumer
         << " [label=" << dotQuoted(readable(tensor.bytesPerSample)) << "];\n";
  os << "}\n";
}

std::string dotQuoted(StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + "\"";
}

} // namespace heterplan
