#include "ir/onnx/group/SparseTables.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t leastRowsOfLookup = 1024;
constexpr double leastBytes = 1 << 20;

class TableFinder {
public:
  TableFinder(const GraphFacts &facts, const std::vector<bool> &ofInputs)
      : graph(facts.graph), facts(facts), fromInputs(graph.tensors.size()),
        users(graph.tensors.size()) {
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      fromInputs[id] = graph.tensors[id].role == TensorRole::Input;
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      for (TensorId id : graph.nodes[node].outputs)
        if (id != noTensor)
          fromInputs[id] = ofInputs[node];
      for (TensorId id : graph.nodes[node].inputs)
        if (id != noTensor)
          users[id].push_back(static_cast<int>(node));
    }
  }

  /// The sparse table that parameter `id` is, or none.
  std::optional<SparseTable> tableOf(TensorId id) const {
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role != TensorRole::Parameter || tensor.shape.size() != 2 ||
        facts.bytes(id) < leastBytes || is_contained(graph.outputs, id))
      return std::nullopt;
    SparseTable table{tensor.name, tensor.shape[0].fixed, tensor.shape[1].fixed, tensor.type, 0};
    for (int user : users[id]) {
      const GraphNode &node = graph.nodes[user];
      if (!looksUpRows(node) || node.inputs[0] != id)
        return std::nullopt;
      table.lookups += static_cast<int64_t>(elementCount(graph.tensors[node.inputs[1]].shape, 1));
    }
    bool sparse = table.lookups > 0 && table.lookups <= table.rows / leastRowsOfLookup;
    return sparse ? std::optional(table) : std::nullopt;
  }

  ArrayRef<int> usersOf(TensorId id) const { return users[id]; }

private:
  /// Indices that the samples bring are known before any layer has run, so that rows can be fetched
  /// in advance; each sample has as many.
  bool areOfSamples(TensorId id) const {
    const GraphTensor &tensor = graph.tensors[id];
    return fromInputs[id] && !tensor.dynamic && tensor.container == Container::None &&
           elementCount(tensor.shape, 1) > 0 && elementCount(tensor.shape, 0) == 0;
  }

  bool looksUpRows(const GraphNode &node) const {
    const auto *axis = findAttribute<int64_t>(node, "axis");
    return node.op == "Gather" && node.domain.empty() && (!axis || *axis == 0) &&
           node.inputs.size() == 2 && node.inputs[1] != noTensor && areOfSamples(node.inputs[1]);
  }

  const Graph &graph;
  const GraphFacts &facts;
  std::vector<bool> fromInputs; // by tensor
  std::vector<std::vector<int>> users;
};
} // namespace

void addSparseTables(const GraphFacts &facts, ArrayRef<int> layerOf,
                     const std::vector<bool> &ofInputs, std::vector<Layer> &layers) {
  TableFinder finder(facts, ofInputs);
  for (size_t id = 0; id < facts.graph.tensors.size(); ++id) {
    std::optional<SparseTable> table = finder.tableOf(static_cast<TensorId>(id));
    if (!table)
      continue;
    int first = static_cast<int>(layers.size());
    for (int user : finder.usersOf(static_cast<TensorId>(id)))
      first = std::min(first, layerOf[user]);
    Layer &layer = layers[first];
    if (layer.tables.empty())
      layer.signature += " sparse"; // a tied table of the same shape may be dense
    layer.tables.push_back(std::move(*table));
  }
}

} // namespace heterplan
