#include "ir/onnx/normalize/Origins.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

Origins::Origins(const Graph &graph)
    : graph(graph), producer(graph.tensors.size(), nullptr), uses(graph.tensors.size()),
      trained(graph.tensors.size()) {
  for (size_t id = 0; id < trained.size(); ++id)
    trained[id] = isWeight(graph.tensors[id].role);
  for (const GraphNode &node : graph.nodes) {
    const bool readsTrained =
        node.op != "Shape" && node.op != "Size" &&
        any_of(node.inputs, [&](TensorId id) { return id != noTensor && trained[id]; });
    for (TensorId id : node.outputs)
      if (id != noTensor) {
        producer[id] = &node;
        trained[id] = readsTrained && graph.tensors[id].role != TensorRole::Constant;
      }
  }
  for (TensorId id : graph.outputs)
    ++uses[id];
  for (const GraphNode &node : reverse(graph.nodes))
    if (any_of(node.outputs, [&](TensorId id) { return id != noTensor && uses[id]; }))
      for (TensorId id : node.inputs)
        if (id != noTensor)
          ++uses[id];
}

const GraphNode *Origins::made(TensorId id, StringRef op) const {
  const GraphNode *node = id == noTensor ? nullptr : producer[id];
  return node && node->op == op && node->domain.empty() && !node->inputs.empty() &&
                 !is_contained(node->inputs, noTensor)
             ? node
             : nullptr;
}

std::optional<double> Origins::numberOf(TensorId id) const {
  const GraphTensor &tensor = graph.tensors[id];
  if (tensor.role != TensorRole::Constant || !tensor.data || !isFloating(tensor.type) ||
      !folding::isComputable(tensor.data->type) ||
      tensor.data->bytes.size() != static_cast<size_t>(sizeOf(tensor.data->type)))
    return std::nullopt;
  return folding::loadReal(*tensor.data, 0);
}

} // namespace heterplan
