#include "codegen/Initializers.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/StringSwitch.h"

#include <vector>

using namespace llvm;

namespace heterplan {
namespace {
enum class Role { Unknown, Through, Weight, Scale, Shift, Term, Factor, Table };

Role roleOf(const GraphNode &node, int input) {
  if (input == 0)
    return StringSwitch<Role>(node.op)
        .Cases("Identity", "Transpose", "Reshape", "Unsqueeze", "Squeeze", "Cast", Role::Through)
        .Cases("Gemm", "MatMul", "Einsum", Role::Weight)
        .Cases("Add", "Sub", Role::Term)
        .Cases("Mul", "Div", Role::Factor)
        .Case("Gather", Role::Table)
        .Default(Role::Unknown);
  Role norm = input == 1 || input == 4 ? Role::Scale : Role::Shift; // 4: running variance
  return StringSwitch<Role>(node.op)
      .Cases("Conv", "ConvTranspose", "Gemm", input == 1 ? Role::Weight : Role::Shift)
      .Cases("MatMul", "Einsum", Role::Weight)
      .Cases("BatchNormalization", "LayerNormalization", "InstanceNormalization",
             "GroupNormalization", norm)
      .Cases("Add", "Sub", Role::Term)
      .Cases("Mul", "Div", Role::Factor)
      .Default(Role::Unknown);
}

/// The most telling use of `tensor`; an embedding that is also a weight counts as one.
Role strongestRole(const Graph &graph, const GraphUse &use, TensorId tensor, int depth) {
  Role result = Role::Unknown;
  for (int index : use.consumers[tensor]) {
    const GraphNode &node = graph.nodes[index];
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input] != tensor)
        continue;
      Role role = roleOf(node, static_cast<int>(input));
      if (role == Role::Through && depth > 0 && node.outputs[0] != noTensor)
        role = strongestRole(graph, use, node.outputs[0], depth - 1);
      if (role == Role::Table || result == Role::Unknown || result == Role::Through)
        result = role;
    }
  }
  return result;
}

/// Size of the axis that a Gather looks up, or 0 where it depends on the batch.
int64_t rowsOf(const Graph &graph, const GraphNode &node) {
  const Shape &shape = graph.tensors[node.inputs[0]].shape;
  const auto *given = findAttribute<int64_t>(node, "axis");
  int64_t rank = static_cast<int64_t>(shape.size());
  int64_t axis = given ? *given + (*given < 0 ? rank : 0) : 0;
  return axis < 0 || axis >= rank || shape[axis].perSample ? 0 : shape[axis].fixed;
}

bool keepsValues(const GraphNode &node, int input) {
  return input == 0 && StringSwitch<bool>(node.op)
                           .Cases("Identity", "Transpose", "Reshape", "Unsqueeze", "Squeeze", true)
                           .Cases("Cast", "Slice", "Split", "Flatten", "Expand", "Gather", true)
                           .Default(false);
}
} // namespace

int64_t indexBound(const Graph &graph, const GraphUse &use, TensorId first) {
  if (isFloating(graph.tensors[first].type))
    return 0;
  int64_t bound = 0;
  std::vector<TensorId> stack{first};
  std::vector<bool> seen(graph.tensors.size());
  while (!stack.empty()) {
    TensorId tensor = stack.back();
    stack.pop_back();
    if (seen[tensor])
      continue;
    seen[tensor] = true;
    for (int index : use.consumers[tensor]) {
      const GraphNode &node = graph.nodes[index];
      bool lookUp = node.op == "Gather" && node.inputs.size() > 1 && node.inputs[1] == tensor;
      int64_t rows = lookUp ? rowsOf(graph, node) : 0;
      if (rows > 0 && (!bound || rows < bound))
        bound = rows;
      if (!node.inputs.empty() && node.inputs[0] == tensor && keepsValues(node, 0))
        for (TensorId output : node.outputs)
          if (output != noTensor)
            stack.push_back(output);
    }
  }
  return bound;
}

const char *initializerOf(const Graph &graph, const GraphUse &use, TensorId tensor) {
  size_t axes = 0; // that are longer than one
  for (Dim dim : graph.tensors[tensor].shape)
    axes += dim.fixed > 1;
  switch (strongestRole(graph, use, tensor, 4)) {
  case Role::Weight:
    return axes > 1 ? "kaiming" : "normal";
  case Role::Scale:
    return "ones";
  case Role::Factor:
    return axes > 1 ? "normal" : "ones";
  case Role::Shift:
    return "zeros";
  case Role::Term:
    return axes > 1 ? "normal" : "zeros";
  case Role::Table:
    return "normal";
  default:
    return axes > 1 ? "kaiming" : "zeros";
  }
}

} // namespace heterplan
