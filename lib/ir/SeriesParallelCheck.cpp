#include "ir/SeriesParallel.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

Error wrong(const std::string &what) {
  return Diagnostic(Diag::InvalidLayerGraph, {"", 0, 0, "structure"}) << what;
}

/// Checks blocks from the definitions, by the edges between layers alone.
class Checker {
public:
  explicit Checker(const LayerGraph &graph) : graph(graph), child(graph.layers.size(), -1) {
    for (const LayerTensor &tensor : graph.tensors)
      for (int consumer : tensor.consumers)
        edges.emplace_back(tensor.producer, consumer);
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  }

  Error run(const Block &root) {
    if (Error error = check(root))
      return error;
    std::vector<int> layers = layersOf(root);
    std::sort(layers.begin(), layers.end());
    for (int i = 0; i < graph.size(); ++i)
      if (i >= static_cast<int>(layers.size()) || layers[i] != i)
        return wrong("layer '" + graph.layers[i].name + "' is not in it exactly once");
    return Error::success();
  }

private:
  const LayerGraph &graph;
  std::vector<std::pair<int, int>> edges;
  std::vector<int> child; // by layer: the child of the block being checked, or -1

  static std::vector<int> layersOf(const Block &block) {
    if (block.kind == Block::Kind::Layer)
      return {block.layer};
    std::vector<int> result;
    for (const Block &part : block.children) {
      std::vector<int> more = layersOf(part);
      result.insert(result.end(), more.begin(), more.end());
    }
    return result;
  }

  Error check(const Block &block) {
    std::vector<int> layers = layersOf(block);
    for (int layer : layers)
      if (layer < 0 || layer >= graph.size())
        return wrong("a block names a layer that does not exist");
    if (block.layers != static_cast<int>(layers.size()))
      return wrong("a block counts its layers wrong");
    if (block.kind == Block::Kind::Layer)
      return Error::success();
    child.assign(graph.layers.size(), -1);
    for (size_t i = 0; i < block.children.size(); ++i)
      for (int layer : layersOf(block.children[i]))
        child[layer] = static_cast<int>(i);
    if (Error error = checkKind(block, layers))
      return error;
    for (const Block &part : block.children)
      if (Error error = check(part))
        return error;
    return Error::success();
  }

  Error checkKind(const Block &block, const std::vector<int> &layers) {
    bool parallel = block.kind == Block::Kind::Parallel;
    size_t cuts = parallel ? 0 : block.children.size() - 1;
    if (block.children.size() < 2 || block.cuts.size() != cuts || block.passing.size() != cuts)
      return wrong("a block has children and cuts that do not match");
    for (auto [from, to] : edges)
      if (child[from] >= 0 && child[to] >= 0 && child[from] != child[to] &&
          (parallel || child[from] > child[to]))
        return wrong("'" + graph.layers[to].name + "' depends on '" + graph.layers[from].name +
                     "' against the order of a block");
    return block.kind == Block::Kind::Series ? checkSeries(block, layers) : Error::success();
  }

  /// Each layer of a child reaches each of the next: reachability from the last layer to the first.
  Error checkSeries(const Block &block, const std::vector<int> &layers) {
    std::vector<int> sinks(block.children.size()), sources(block.children.size());
    std::vector<bool> hasAfter(graph.layers.size()), hasBefore(graph.layers.size());
    std::vector<int> joined(block.children.size());
    for (auto [from, to] : edges)
      if (child[from] >= 0 && child[from] == child[to])
        hasAfter[from] = hasBefore[to] = true;
    for (int layer : layers) {
      sinks[child[layer]] += !hasAfter[layer];
      sources[child[layer]] += !hasBefore[layer];
    }
    for (auto [from, to] : edges)
      if (child[from] >= 0 && child[to] == child[from] + 1 && !hasAfter[from] && !hasBefore[to])
        ++joined[child[from]];
    for (size_t i = 0; i + 1 < block.children.size(); ++i)
      if (joined[i] != sinks[i] * sources[i + 1])
        return wrong("two children of a series are not fully ordered");
    return Error::success();
  }
};

} // namespace

const char *nameOf(Block::Kind kind) {
  constexpr const char *names[] = {"layer", "series", "parallel", "general"};
  return names[static_cast<int>(kind)];
}

Error verify(const Block &block, const LayerGraph &graph) { return Checker(graph).run(block); }

} // namespace heterplan
