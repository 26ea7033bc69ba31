#include "ir/onnx/group/StageBoundaries.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {

/// Most stages for which there should be cuts.
constexpr int soughtStages = 16;

Bytes widthOf(const Cut &cut) { return cut.forwardBytes + cut.fixedBytes; }

/// The part of the operations in front of each cut.
std::vector<double> workBefore(const LayerGraph &layers) {
  std::vector<double> result{0};
  for (const Layer &layer : layers.layers)
    result.push_back(result.back() + layer.forwardFlops.value());
  const double all = result.back() > 0 ? result.back() : 1;
  for (double &part : result)
    part /= all;
  return result;
}

class BoundarySearch {
public:
  BoundarySearch(const LayerGraph &whole, const LayerGraph &divided)
      : layers(whole.size()), work(workBefore(whole)), cuts(whole.cuts()),
        possible(whole.allowedCuts()), allowed(divided.allowedCuts()) {}

  std::vector<int> run() const {
    std::vector<int> result;
    for (int stage = 1; stage < soughtStages; ++stage)
      if (int found = narrowest(stage); found > 0 && !is_contained(result, found))
        result.push_back(found);
    sort(result);
    return result;
  }

private:
  int layers;
  std::vector<double> work;
  std::vector<Cut> cuts;
  std::vector<bool> possible, allowed; // with whole layers, and with divided ones

  bool isNarrow(int cut) const {
    const auto width = [&](int at) {
      return at > 0 && at < layers ? widthOf(cuts[at])
                                   : Bytes(std::numeric_limits<double>::infinity());
    };
    return width(cut) <= width(cut - 1) && width(cut) <= width(cut + 1);
  }

  /// The cut to be made near the beginning of a stage; 0: there is one, or none can be made.
  int narrowest(int stage) const {
    int best = 0;
    for (int cut = 1; cut < layers; ++cut) {
      const double distance = std::abs(work[cut] * soughtStages - stage);
      if (distance > 0.5 || !possible[cut])
        continue;
      if (allowed[cut])
        return 0;
      if (isNarrow(cut) && (best == 0 || widthOf(cuts[cut]) < widthOf(cuts[best])))
        best = cut;
    }
    return best;
  }
};

class BoundaryWriter {
public:
  BoundaryWriter(const Graph &graph, const LayerGraph &whole) : whole(whole) {
    result.graph = graph;
    for (GraphTensor &tensor : result.graph.tensors) {
      if (tensor.role == TensorRole::Parameter)
        tensor.data.reset();
      names.insert(tensor.name);
    }
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      ids[graph.tensors[id].name] = static_cast<TensorId>(id);
    for (int layer = 0; layer < whole.size(); ++layer)
      for (const std::string &node : whole.layers[layer].nodes)
        layerOf[node] = layer;
  }

  GraphWithBoundaries run(ArrayRef<int> positions) {
    const std::vector<Cut> cuts = whole.cuts();
    for (int position : positions)
      for (int index : cuts[position].tensors) {
        const std::string &name = whole.tensors[index].name;
        auto id = ids.find(name);
        if (id != ids.end() && done.insert(name).second)
          divert(id->second, position);
      }
    return std::move(result);
  }

private:
  const LayerGraph &whole;
  GraphWithBoundaries result;
  StringSet<> names, done;
  StringMap<TensorId> ids;
  StringMap<int> layerOf; // by node

  std::string unusedName(std::string name) {
    while (!names.insert(name).second)
      name += "'";
    return name;
  }

  /// Puts an operator behind the producer of a tensor.
  void divert(TensorId id, int cut) {
    Graph &graph = result.graph;
    const auto isBefore = [&](const GraphNode &node) {
      auto layer = layerOf.find(node.name);
      return layer != layerOf.end() && layer->second < cut;
    };
    auto producer =
        find_if(graph.nodes, [&](const GraphNode &node) { return is_contained(node.outputs, id); });
    if (producer == graph.nodes.end() || any_of(graph.nodes, [&](const GraphNode &node) {
          return !node.bodies.empty() && isBefore(node) && is_contained(node.inputs, id);
        }))
      return; // bodies read it by its number
    const auto inner = static_cast<TensorId>(graph.tensors.size());
    GraphTensor tensor = graph.tensors[id];
    tensor.name = unusedName(tensor.name + "/within");
    graph.tensors.push_back(std::move(tensor));
    std::replace(producer->outputs.begin(), producer->outputs.end(), id, inner);
    for (GraphNode &node : graph.nodes)
      if (isBefore(node))
        std::replace(node.inputs.begin(), node.inputs.end(), id, inner);
    GraphNode identity;
    identity.name = unusedName(graph.tensors[id].name + "/boundary");
    identity.op = "Identity";
    identity.inputs.push_back(inner);
    identity.outputs.push_back(id);
    result.nodes.insert(identity.name);
    graph.nodes.insert(producer + 1, std::move(identity));
  }
};

} // namespace

std::vector<int> missingBoundaries(const LayerGraph &whole, const LayerGraph &divided) {
  return BoundarySearch(whole, divided).run();
}

GraphWithBoundaries withBoundaries(const Graph &graph, const LayerGraph &whole,
                                   ArrayRef<int> cuts) {
  return BoundaryWriter(graph, whole).run(cuts);
}

} // namespace heterplan
