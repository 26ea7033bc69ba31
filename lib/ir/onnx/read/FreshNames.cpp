#include "ir/onnx/read/FreshNames.h"

namespace heterplan {

FreshNames::FreshNames(Graph &graph) : graph(graph) {
  for (const GraphNode &node : graph.nodes)
    names.try_emplace(node.name, 1);
  for (const GraphTensor &tensor : graph.tensors)
    names.try_emplace(tensor.name, 1);
}

std::string FreshNames::unique(const std::string &wanted) {
  std::string name = wanted;
  while (!names.try_emplace(name, 1).second)
    name = wanted + "_" + std::to_string(++names[wanted]);
  return name;
}

TensorId FreshNames::add(GraphTensor tensor) {
  tensor.name = unique(tensor.name);
  graph.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

GraphNode FreshNames::node(const char *op, llvm::ArrayRef<TensorId> inputs, TensorId output) {
  GraphNode node;
  node.op = op;
  node.name = unique(op + ("_" + graph.tensors[output].name.substr(0, 200)));
  node.inputs.assign(inputs.begin(), inputs.end());
  node.outputs = {output};
  node.number = -1;
  return node;
}

} // namespace heterplan
