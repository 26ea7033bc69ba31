#include "StructureText.h"

#include "Table.h"

#include "support/Text.h"

using namespace llvm;

namespace heterplan {

namespace {

class Printer {
public:
  Printer(raw_ostream &os, const LayerGraph &graph, int64_t batch)
      : os(os), graph(graph), batch(double(batch)) {}

  void print(const Block &block, unsigned depth, StringRef prefix) {
    if (block.kind == Block::Kind::Layer)
      return run(block, {&block, 1}, 0, depth, prefix);
    begin(depth) << prefix << nameOf(block.kind) << ", " << block.layers << " layers";
    if (block.inputs.tensors)
      os << ", " << bytes(block.inputs) << " in";
    if (block.outputs.tensors)
      os << ", " << bytes(block.outputs) << " out";
    if (block.kind == Block::Kind::Parallel)
      os << ", " << block.children.size() << " branches";
    os << '\n';
    children(block, depth + 1);
  }

private:
  static constexpr size_t manyLeaves = 4; // branches of one layer share a line from here on
  raw_ostream &os;
  const LayerGraph &graph;
  double batch;

  raw_ostream &begin(unsigned depth) { return os.indent(2 * depth); }

  std::string bytes(const Flow &flow) const { return readable(flow.forward * batch + flow.fixed); }
  Bytes width(const Block &block, size_t cut) const {
    const Flow &made = block.cuts[cut], &passing = block.passing[cut];
    return (made.forward + passing.forward) * batch + made.fixed + passing.fixed;
  }

  void children(const Block &block, unsigned depth) {
    ArrayRef<Block> all = block.children;
    for (size_t i = 0; i < all.size();) {
      size_t end = i;
      while (end < all.size() && all[end].kind == Block::Kind::Layer)
        ++end;
      if (block.kind == Block::Kind::Parallel && end - i >= manyLeaves) {
        begin(depth) << shortened(graph.layers[all[i].layer].name) << " | ... | "
                     << shortened(graph.layers[all[end - 1].layer].name) << " (" << end - i
                     << " branches of one layer)\n";
        i = end;
        continue;
      }
      if (end == i || block.kind == Block::Kind::Parallel) {
        print(all[i++], depth, "");
        continue;
      }
      run(block, all.slice(i, end - i), i, depth, "");
      i = end;
    }
  }

  /// Layers in a row; `first` is the place of the first in `block`.
  void run(const Block &block, ArrayRef<Block> layers, size_t first, unsigned depth,
           StringRef prefix) {
    begin(depth) << prefix << shortened(graph.layers[layers.front().layer].name);
    if (layers.size() == 1) {
      os << '\n';
      return;
    }
    size_t best = first;
    for (size_t cut = first; cut + 1 < first + layers.size(); ++cut)
      if (width(block, cut) < width(block, best))
        best = cut;
    os << (layers.size() == 2 ? ", " : " ... ")
       << shortened(graph.layers[layers.back().layer].name);
    if (layers.size() > 2)
      os << " (" << layers.size() << " layers)";
    os << ", narrowest cut " << readable(width(block, best)) << " after "
       << shortened(graph.layers[block.children[best].layer].name) << '\n';
  }
};

class Writer {
public:
  Writer(JsonWriter &json, const LayerGraph &graph, int64_t batch)
      : json(json), graph(graph), batch(double(batch)) {}

  void facts(const Block &block) {
    json.attribute("kind", nameOf(block.kind));
    if (block.kind == Block::Kind::Layer)
      return json.attribute("layer", graph.layers[block.layer].name);
    json.attribute("layers", block.layers);
    json.attribute("inputBytes", bytes(block.inputs));
    json.attribute("outputBytes", bytes(block.outputs));
    if (!block.cuts.empty())
      flows("cutBytes", block.cuts), flows("passingBytes", block.passing);
    json.attributeArray("children", [&] {
      for (const Block &child : block.children)
        json.object([&] { facts(child); });
    });
  }

private:
  JsonWriter &json;
  const LayerGraph &graph;
  double batch;

  double bytes(const Flow &flow) const { return (flow.forward * batch + flow.fixed).value(); }
  void flows(StringRef key, ArrayRef<Flow> list) {
    json.attributeArray(key, [&] {
      for (const Flow &flow : list)
        json.value(bytes(flow));
    });
  }
};

} // namespace

void printStructure(raw_ostream &os, const Block &root, const LayerGraph &graph, int64_t batch) {
  Printer(os, graph, batch).print(root, 0, "structure: ");
}

void writeStructure(JsonWriter &json, const Block &root, const LayerGraph &graph, int64_t batch) {
  json.attributeObject("structure", [&] { Writer(json, graph, batch).facts(root); });
}

} // namespace heterplan
