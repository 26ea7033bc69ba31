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

/// Work in units of 10^9 with four digits after the point, more where they would all be zero.
std::string giga(Flops work, double batch) {
  double value = work.value() * batch / 1e9;
  return value == 0 ? "0" : value >= 0.001 ? fixed(value, 4) : fixed(value, 7);
}

std::string macsText(double macs) {
  return macs >= 1e8 ? fixed(macs / 1e9, 2) + " GMAC" : fixed(macs / 1e6, 2) + " MMAC";
}
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
                 int64_t batch) {
  std::vector<Bytes> cuts = cutBytes(graph, batch);
  auto samples = double(batch);
  Table table({"layer", "kind", ">GFLOP fwd", ">GFLOP bwd", ">parameters", ">activations", ">cut"});
  for (int index = 0; index < graph.size(); ++index) {
    const Layer &layer = graph.layers[index];
    table.row({shortened(layer.name), nameOf(layer.kind), giga(layer.forwardFlops, samples),
               giga(layer.backwardFlops, samples), readable(counts[index].parameters),
               readable(layer.activationBytes * samples), readable(cuts[index])});
  }
  LayerTotals totals = totalsOf(graph, counts);
  table.rule();
  table.row({std::to_string(graph.size()) + (graph.size() == 1 ? " layer" : " layers"), "",
             giga(totals.forward, samples), giga(totals.backward, samples),
             readable(totals.parameters), readable(totals.activations * samples), ""});
  table.print(os);
  os << '\n'
     << graph.model << ": " << fixed(totals.parameters / 1e6, 2) << " M parameters, "
     << macsText(totals.macs) << " forward a sample; figures above are for " << batch
     << (batch == 1 ? " sample\n" : " samples\n");
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
