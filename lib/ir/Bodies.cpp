#include "ir/Bodies.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/DenseSet.h"

using namespace llvm;

namespace heterplan {

namespace {

/// Positions of the carried values: among operands, inputs, outputs of the body, results.
struct Positions {
  int operand = 0, input = 0, output = 0, result = 0;
  int carried = 0;
};

Positions positionsOf(const GraphNode &node, const GraphBody &body) {
  int operands = static_cast<int>(node.operands().size());
  if (node.op == "Loop")
    return {2, 2, 1, 0, std::max(0, operands - 2)};
  if (node.op == "Scan") {
    int first = static_cast<int>(body.inputs.size()) < operands ? 1 : 0; // sequence_lens, until 8
    int64_t scanned = integerAttribute(node, "num_scan_inputs");
    int64_t carried = std::clamp<int64_t>(operands - first - scanned, 0, operands);
    return {first, 0, 0, 0, static_cast<int>(carried)};
  }
  if (node.op == "If")
    return {operands, 0, 0, 0, 0};
  return {};
}

void addPair(BodyFlow::Pairs &pairs, ArrayRef<TensorId> from, size_t i, ArrayRef<TensorId> to,
             size_t j) {
  if (i < from.size() && j < to.size() && from[i] != noTensor && to[j] != noTensor)
    pairs.push_back({from[i], to[j]});
}

} // namespace

BodyFlow flowOf(const GraphNode &node, const GraphBody &body) {
  BodyFlow flow;
  Positions at = positionsOf(node, body);
  ArrayRef<TensorId> operands = node.operands();
  for (size_t i = at.operand; i < operands.size(); ++i)
    addPair(flow.in, operands, i, body.inputs, i - at.operand + at.input);
  for (size_t i = at.output; i < body.outputs.size(); ++i)
    addPair(flow.out, body.outputs, i, node.outputs, i - at.output + at.result);
  for (int i = 0; i < at.carried; ++i)
    addPair(flow.carried, body.outputs, at.output + i, body.inputs, at.input + i);
  if (node.op == "Loop") { // the condition
    addPair(flow.in, operands, 1, body.inputs, 1);
    addPair(flow.carried, body.outputs, 0, body.inputs, 1);
  }
  return flow;
}

void setCaptures(GraphNode &node) {
  node.inputs.resize(node.operands().size());
  node.captures = 0;
  DenseSet<TensorId> known;
  for (const GraphBody &body : node.bodies) {
    known.insert(body.inputs.begin(), body.inputs.end());
    eachNode(body.nodes, [&](const GraphNode &inner) {
      for (const GraphBody &nested : inner.bodies)
        known.insert(nested.inputs.begin(), nested.inputs.end());
      known.insert(inner.outputs.begin(), inner.outputs.end());
    });
  }
  known.insert(noTensor);
  auto read = [&](ArrayRef<TensorId> ids) {
    for (TensorId id : ids)
      if (known.insert(id).second) {
        node.inputs.push_back(id);
        ++node.captures;
      }
  };
  for (const GraphBody &body : node.bodies) {
    for (const GraphNode &inner : body.nodes)
      read(inner.inputs); // of nested bodies too: they are captures of `inner`
    read(body.outputs);
  }
}

} // namespace heterplan
