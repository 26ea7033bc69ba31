#include "ir/LayerOrder.h"

#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <string>

using namespace llvm;

namespace heterplan {

namespace {
/// The order that the stages of a plan state.
class StatedOrder {
public:
  StatedOrder(const Plan &plan, const LayerGraph &graph)
      : graph(graph), position(graph.size(), -1) {
    for (size_t s = 0; s < plan.stages.size(); ++s)
      for (size_t i = 0; i < plan.stages[s].layers.size(); ++i)
        stated.push_back({&plan.stages[s].layers[i], int(s), int(i)});
  }

  /// The indices of the layers.
  Expected<std::vector<int>> read() {
    if (Error error = readLayers())
      return error;
    if (Error error = checkTensors())
      return error;
    if (Error error = checkPairs())
      return error;
    if (Error error = checkRuns())
      return error;
    return std::move(order);
  }

private:
  struct Entry {
    const std::string *name;
    int stage, place;
  };

  const LayerGraph &graph;
  std::vector<Entry> stated;
  std::vector<int> order;
  std::vector<int> position; // by layer; -1: not stated

  Diagnostic wrong(Diag code, size_t entry) const {
    const Entry &at = stated[entry];
    return Diagnostic(code, {"", 0, 0,
                             "stages[" + std::to_string(at.stage) + "].layers[" +
                                 std::to_string(at.place) + "]"});
  }
  const std::string &nameAt(int layer) const { return graph.layers[layer].name; }

  Error readLayers() {
    StringMap<int> indices;
    for (int i = 0; i < graph.size(); ++i)
      indices.try_emplace(nameAt(i), i);
    for (size_t i = 0; i < stated.size(); ++i) {
      auto found = indices.find(*stated[i].name);
      if (found == indices.end())
        return wrong(Diag::UnknownLayer, i) << "the model has no layer '" << *stated[i].name << "'";
      if (position[found->second] >= 0)
        return wrong(Diag::DuplicateName, i)
               << "layer '" << *stated[i].name << "' is listed a second time";
      position[found->second] = int(i);
      order.push_back(found->second);
    }
    auto missing = find(position, -1);
    if (missing == position.end())
      return Error::success();
    return Diagnostic(Diag::InvalidPlan, {"", 0, 0, "stages"})
           << "layer '" << nameAt(int(missing - position.begin())) << "' is in no stage";
  }

  Error checkTensors() const {
    for (const LayerTensor &tensor : graph.tensors)
      for (int consumer : tensor.consumers)
        if (position[consumer] < position[tensor.producer])
          return wrong(Diag::CyclicGraph, position[consumer])
                 << "layer '" << nameAt(consumer) << "' reads tensor '" << tensor.name
                 << "' of layer '" << nameAt(tensor.producer) << "', which comes later";
    return Error::success();
  }

  Error checkPairs() const {
    for (auto [first, second] : fixedPairs(graph))
      if (position[second] < position[first])
        return wrong(Diag::InvalidPlan, position[second])
               << "layer '" << nameAt(second) << "' comes before layer '" << nameAt(first)
               << (second + 1 == graph.size() ? "'; the last layer of the model stays the last"
                                              : "', the first user of a tied parameter");
    return Error::success();
  }

  Error checkRuns() const {
    const std::vector<bool> allowed = graph.allowedCuts();
    for (int i = 1; i < graph.size(); ++i)
      if (!allowed[i] && position[i] != position[i - 1] + 1)
        return wrong(Diag::InvalidPlan, position[i])
               << "layer '" << nameAt(i) << "' does not follow layer '" << nameAt(i - 1)
               << "', from which no cut may part it";
    return Error::success();
  }
};
} // namespace

const char *nameOf(LayerOrder layerOrder) {
  constexpr const char *names[] = {"given", "narrow"};
  return names[static_cast<int>(layerOrder)];
}

LayerGraph permuted(LayerGraph graph, ArrayRef<int> order) {
  std::vector<int> number(order.size());
  std::vector<Layer> layers;
  for (int layer : order) {
    number[layer] = static_cast<int>(layers.size());
    layers.push_back(std::move(graph.layers[layer]));
  }
  graph.layers = std::move(layers);
  for (LayerTensor &tensor : graph.tensors) {
    tensor.producer = number[tensor.producer];
    for (int &consumer : tensor.consumers)
      consumer = number[consumer];
    sort(tensor.consumers);
  }
  return graph;
}

std::vector<std::pair<int, int>> fixedPairs(const LayerGraph &graph) {
  std::vector<std::pair<int, int>> pairs;
  for (const TiedParameter &tied : graph.tiedParameters())
    for (int user : drop_begin(tied.layers))
      pairs.push_back({tied.layers.front(), user});
  for (int layer = 0; layer + 1 < graph.size(); ++layer)
    pairs.push_back({layer, graph.size() - 1});
  return pairs;
}

Expected<LayerGraph> inOrderOf(const Plan &plan, LayerGraph graph) {
  if (plan.layerOrder == LayerOrder::Given)
    return graph;
  Expected<std::vector<int>> order = StatedOrder(plan, graph).read();
  if (!order)
    return order.takeError();
  graph = permuted(std::move(graph), *order);
  graph.order = plan.layerOrder;
  return graph;
}

} // namespace heterplan
