#include "ir/SeriesParallel.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

/// Adds tensors to ranges of positions; the sums come in one sweep. Sizes are whole numbers far
/// below 2^64, which a long double adds and subtracts exactly.
class Sweep {
public:
  explicit Sweep(size_t positions) : steps(positions + 1) {}

  void add(const LayerTensor &tensor, size_t begin, size_t end) {
    if (begin >= end)
      return;
    step(steps[begin], tensor, 1);
    step(steps[end], tensor, -1);
  }

  std::vector<Flow> flows() const {
    std::vector<Flow> result;
    Step sum;
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      sum.tensors += steps[i].tensors;
      sum.forward += steps[i].forward;
      sum.backward += steps[i].backward;
      sum.fixed += steps[i].fixed;
      if (!sum.tensors)
        sum = {};
      result.push_back({sum.tensors, Bytes(double(sum.forward)), Bytes(double(sum.backward)),
                        Bytes(double(sum.fixed))});
    }
    return result;
  }

private:
  struct Step {
    int tensors = 0;
    long double forward = 0, backward = 0, fixed = 0;
  };
  std::vector<Step> steps;

  static void step(Step &at, const LayerTensor &tensor, int sign) {
    at.tensors += sign;
    at.forward += sign * static_cast<long double>(tensor.bytesPerSample.value());
    at.fixed += sign * static_cast<long double>(tensor.fixedBytes.value());
    if (tensor.differentiable)
      at.backward += sign * static_cast<long double>(tensor.bytesPerSample.value());
  }
};

void count(Flow &flow, const LayerTensor &tensor) {
  ++flow.tensors;
  flow.forward += tensor.bytesPerSample;
  flow.fixed += tensor.fixedBytes;
  if (tensor.differentiable)
    flow.backward += tensor.bytesPerSample;
}

class Decomposer {
public:
  Decomposer(const LayerGraph &graph, int deepest)
      : graph(graph), deepest(deepest), made(graph.layers.size()), used(graph.layers.size()),
        owner(graph.layers.size(), -1), place(graph.layers.size()),
        seenBy(graph.tensors.size(), -1), lastUse(graph.tensors.size()) {
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      made[graph.tensors[i].producer].push_back(static_cast<int>(i));
      for (int consumer : graph.tensors[i].consumers)
        used[consumer].push_back(static_cast<int>(i));
    }
  }

  /// Builds the block of `members`, in topological order.
  Block build(const std::vector<int> &members, int depth) {
    Block block;
    block.layers = static_cast<int>(members.size());
    enter(members);
    std::vector<std::vector<int>> parts;
    if (members.size() == 1) {
      block.layer = members[0];
    } else {
      block.kind = split(members, depth, parts);
      for (size_t part = 0; part < parts.size(); ++part)
        for (int layer : parts[part])
          place[layer] = static_cast<int>(part);
    }
    measure(members, parts.size(), block);
    for (const std::vector<int> &part : parts)
      block.children.push_back(build(part, depth + 1));
    return block;
  }

private:
  const LayerGraph &graph;
  const int deepest;
  std::vector<std::vector<int>> made, used; // tensors, by layer
  std::vector<int> owner;                   // by layer: the block that is being built
  std::vector<int> place;                   // by layer: its position, then its part
  std::vector<int> seenBy, lastUse;         // by tensor, for the block that is being built
  int blocks = 0;

  void enter(const std::vector<int> &members) {
    ++blocks;
    for (size_t i = 0; i < members.size(); ++i) {
      owner[members[i]] = blocks;
      place[members[i]] = static_cast<int>(i);
    }
  }

  bool inside(int layer) const { return owner[layer] == blocks; }

  /// Positions of the layers that each member leads to directly, ascending.
  std::vector<std::vector<int>> successors(const std::vector<int> &members) const {
    std::vector<std::vector<int>> result(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      for (int tensor : made[members[i]])
        for (int consumer : graph.tensors[tensor].consumers)
          if (inside(consumer))
            result[i].push_back(place[consumer]);
      std::sort(result[i].begin(), result[i].end());
      result[i].erase(std::unique(result[i].begin(), result[i].end()), result[i].end());
    }
    return result;
  }

  Block::Kind split(const std::vector<int> &members, int depth,
                    std::vector<std::vector<int>> &parts) {
    std::vector<std::vector<int>> edges = successors(members);
    if (depth < deepest) {
      parts = inSeries(members, edges);
      if (parts.size() > 1)
        return Block::Kind::Series;
      parts = inParallel(members, edges);
      if (parts.size() > 1)
        return Block::Kind::Parallel;
    }
    parts.clear();
    for (int member : members)
      parts.push_back({member});
    return Block::Kind::General;
  }

  /// All before position p precede all from it on just where each sink of the former leads directly
  /// to each source of the latter: the path between them has no other layer to go through.
  static std::vector<std::vector<int>> inSeries(const std::vector<int> &members,
                                                const std::vector<std::vector<int>> &edges) {
    int size = static_cast<int>(members.size());
    std::vector<int> lastBefore(members.size(), -1);
    for (int i = 0; i < size; ++i)
      for (int j : edges[i])
        lastBefore[j] = i;
    // Differences over positions: sinks, sources, edges between them.
    std::vector<int64_t> sinks(size + 2), sources(size + 2), between(size + 2);
    auto add = [](std::vector<int64_t> &counts, int begin, int end) {
      ++counts[begin];
      --counts[end];
    };
    for (int i = 0; i < size; ++i) {
      int firstAfter = edges[i].empty() ? size : edges[i][0];
      add(sinks, i + 1, firstAfter + 1);
      add(sources, lastBefore[i] + 1, i + 1);
      for (int j : edges[i])
        if (lastBefore[j] < firstAfter)
          add(between, lastBefore[j] + 1, firstAfter + 1);
    }
    std::vector<std::vector<int>> parts;
    int64_t s = 0, t = 0, e = 0;
    for (int p = 0; p < size; ++p) {
      s += sinks[p];
      t += sources[p];
      e += between[p];
      if (p == 0 || e == s * t)
        parts.emplace_back();
      parts.back().push_back(members[p]);
    }
    return parts;
  }

  /// The connected components.
  static std::vector<std::vector<int>> inParallel(const std::vector<int> &members,
                                                  const std::vector<std::vector<int>> &edges) {
    std::vector<int> parent(members.size());
    std::iota(parent.begin(), parent.end(), 0);
    auto root = [&](int i) {
      while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
      return i;
    };
    for (size_t i = 0; i < edges.size(); ++i)
      for (int j : edges[i]) {
        int a = root(static_cast<int>(i)), b = root(j);
        parent[std::max(a, b)] = std::min(a, b);
      }
    std::vector<int> number(members.size(), -1);
    std::vector<std::vector<int>> parts;
    for (size_t i = 0; i < members.size(); ++i) {
      int &part = number[root(static_cast<int>(i))];
      if (part < 0) {
        part = static_cast<int>(parts.size());
        parts.emplace_back();
      }
      parts[part].push_back(members[i]);
    }
    return parts;
  }

  void measure(const std::vector<int> &members, size_t parts, Block &block) {
    bool ordered = block.kind == Block::Kind::Series || block.kind == Block::Kind::General;
    size_t positions = ordered ? parts - 1 : 0;
    Sweep cuts(positions), passing(positions);
    for (int member : members)
      for (int index : made[member])
        measureMade(index, cuts, positions, block);
    std::vector<int> entering;
    for (int member : members)
      for (int index : used[member])
        if (!inside(graph.tensors[index].producer))
          noteUse(index, member, entering);
    for (int index : entering) {
      count(block.inputs, graph.tensors[index]);
      if (positions)
        passing.add(graph.tensors[index], 0, static_cast<size_t>(lastUse[index]));
    }
    block.cuts = cuts.flows();
    block.passing = passing.flows();
  }

  void measureMade(int index, Sweep &cuts, size_t positions, Block &block) {
    const LayerTensor &tensor = graph.tensors[index];
    auto begin = static_cast<size_t>(place[tensor.producer]), end = begin;
    bool leaves = false;
    for (int consumer : tensor.consumers) {
      leaves = leaves || !inside(consumer);
      if (inside(consumer))
        end = std::max(end, static_cast<size_t>(place[consumer]));
    }
    if (leaves)
      count(block.outputs, tensor);
    if (positions)
      cuts.add(tensor, begin, leaves ? positions : end);
  }

  void noteUse(int index, int layer, std::vector<int> &entering) {
    if (seenBy[index] != blocks) {
      seenBy[index] = blocks;
      lastUse[index] = 0;
      entering.push_back(index);
    }
    lastUse[index] = std::max(lastUse[index], place[layer]);
  }
};

} // namespace

Block decompose(const LayerGraph &graph, int deepest) {
  if (graph.layers.empty()) { // which `verify` of the graph refuses, but one may look at
    Block nothing;
    nothing.kind = Block::Kind::Series;
    nothing.layers = 0;
    return nothing;
  }
  std::vector<int> all(graph.layers.size());
  std::iota(all.begin(), all.end(), 0);
  return Decomposer(graph, deepest).build(all, 0);
}

std::vector<Flow> cutFlows(const LayerGraph &graph) {
  Sweep sweep(graph.layers.size() + 1);
  for (const LayerTensor &tensor : graph.tensors)
    if (!tensor.consumers.empty())
      sweep.add(
          tensor, static_cast<size_t>(tensor.producer) + 1,
          static_cast<size_t>(*std::max_element(tensor.consumers.begin(), tensor.consumers.end())) +
              1);
  return sweep.flows();
}

} // namespace heterplan
