#include "codegen/LinearNodes.h"

#include "ir/Bias.h"

using namespace llvm;

namespace heterplan {

namespace {
class LinearFinder {
public:
  LinearFinder(const Graph &graph, const GraphUse &use, const DenseMap<int, int> &layerOf)
      : graph(graph), use(use), layerOf(layerOf) {}

  /// The MatMul at input `product` of `add`, whose other input is its bias; -1 if it is none.
  int matMulOf(int add, int product) const {
    const GraphNode &node = graph.nodes[add];
    const int matMul = madeFor(node.inputs[product], add);
    if (matMul < 0 || !takesBias(graph.nodes[matMul]) || graph.nodes[matMul].inputs.size() != 2)
      return -1;
    const GraphTensor &weight = graph.tensors[graph.nodes[matMul].inputs[1]];
    const GraphTensor &bias = graph.tensors[node.inputs[1 - product]];
    const bool isLinear = weight.shape.size() == 2 && isBias(bias) &&
                          bias.shape[0] == weight.shape[1] &&
                          graph.tensors[graph.nodes[matMul].inputs[0]].shape.size() >= 2;
    return isLinear ? matMul : -1;
  }

  /// The Transpose of a matrix that makes the weight of `matMul`; -1 if none does.
  int transposeOf(int matMul) const {
    const int node = madeFor(graph.nodes[matMul].inputs[1], matMul);
    const bool isTranspose =
        node >= 0 && graph.nodes[node].op == "Transpose" && graph.nodes[node].domain.empty();
    return isTranspose && isExchange(graph.nodes[node]) ? node : -1;
  }

private:
  const Graph &graph;
  const GraphUse &use;
  const DenseMap<int, int> &layerOf;

  /// The node of the same layer that makes `tensor` for `user` only; -1 if there is none.
  int madeFor(TensorId tensor, int user) const {
    if (tensor == noTensor || use.returned[tensor] || use.inBody[tensor] ||
        use.consumers[tensor].size() != 1 || graph.tensors[tensor].dynamic)
      return -1;
    const int node = use.producers[tensor];
    auto made = layerOf.find(node), used = layerOf.find(user);
    const bool isTogether =
        node >= 0 && made != layerOf.end() && used != layerOf.end() && made->second == used->second;
    return isTogether ? node : -1;
  }

  static bool isExchange(const GraphNode &transpose) {
    auto given = transpose.attributes.find("perm");
    if (given == transpose.attributes.end())
      return true;
    const auto *order = std::get_if<std::vector<int64_t>>(&given->second);
    return order && *order == std::vector<int64_t>{1, 0};
  }
};

GraphNode gemm(const GraphNode &add, TensorId x, TensorId weight, TensorId bias,
               bool isTransposed) {
  GraphNode node;
  node.name = add.name;
  node.op = "Gemm";
  node.inputs = {x, weight, bias};
  node.outputs = add.outputs;
  node.attributes["transB"] = int64_t(isTransposed);
  return node;
}
} // namespace

LinearNodes::LinearNodes(const Graph &graph, const GraphUse &use, const DenseMap<int, int> &layerOf)
    : graph(graph) {
  const LinearFinder finder(graph, use, layerOf);
  for (int add = 0; add < int(graph.nodes.size()); ++add) {
    const GraphNode &node = graph.nodes[add];
    if (node.op != "Add" || !node.domain.empty() || node.inputs.size() != 2 ||
        is_contained(node.inputs, noTensor))
      continue;
    for (int product : {0, 1}) {
      const int matMul = finder.matMulOf(add, product);
      if (matMul < 0)
        continue;
      const GraphNode &value = graph.nodes[matMul];
      const int transpose = finder.transposeOf(matMul);
      const TensorId weight = transpose < 0 ? value.inputs[1] : graph.nodes[transpose].inputs[0];
      gemms.try_emplace(
          add, gemm(node, value.inputs[0], weight, node.inputs[1 - product], transpose >= 0));
      joined.insert(matMul);
      if (transpose >= 0)
        joined.insert(transpose);
      break;
    }
  }
}

const GraphNode &LinearNodes::nodeAt(int node) const {
  auto found = gemms.find(node);
  return found == gemms.end() ? graph.nodes[node] : found->second;
}

} // namespace heterplan
