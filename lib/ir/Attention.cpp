#include "ir/Attention.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

bool isPlainAttention(const Graph &graph, const GraphNode &node) {
  constexpr size_t mask = 3;
  auto isAbsent = [](TensorId id) { return id == noTensor; };
  if (node.op != "Attention" || !node.domain.empty() || node.inputs.size() < mask ||
      any_of(ArrayRef<TensorId>(node.inputs).take_front(mask), isAbsent) ||
      !all_of(drop_begin(node.inputs, std::min(node.inputs.size(), mask + 1)), isAbsent) ||
      !all_of(drop_begin(node.outputs), isAbsent))
    return false;
  const auto *cap = findAttribute<double>(node, "softcap");
  if ((cap && *cap != 0) || node.attributes.count("softmax_precision"))
    return false;
  if (node.inputs.size() == mask || node.inputs[mask] == noTensor)
    return true;
  const GraphTensor &added = graph.tensors[node.inputs[mask]];
  const Shape &keys = graph.tensors[node.inputs[1]].shape; // [..., keys, size]
  return isFloating(added.type) && !added.shape.empty() && keys.size() > 1 &&
         added.shape.back() == keys[keys.size() - 2];
}

} // namespace heterplan
