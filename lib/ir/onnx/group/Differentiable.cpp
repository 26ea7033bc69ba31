// Which tensors a gradient reaches on its way to a parameter.
#include "ir/Bodies.h"
#include "ir/onnx/group/Operators.h"
#include "ir/onnx/group/Roles.h"

using namespace llvm;

namespace heterplan {

namespace {
void markDifferentiable(Graph &graph, const std::vector<GraphNode> &nodes);

/// Marks `to` where `from` is marked; tells whether that is news.
bool handOn(Graph &graph, const BodyFlow::Pairs &pairs) {
  bool news = false;
  for (auto [from, to] : pairs)
    if (graph.tensors[from].differentiable && !graph.tensors[to].differentiable &&
        isFloating(graph.tensors[to].type))
      news = graph.tensors[to].differentiable = true;
  return news;
}

void markBodies(Graph &graph, const GraphNode &node) {
  for (const GraphBody &body : node.bodies) {
    BodyFlow flow = flowOf(node, body);
    handOn(graph, flow.in);
    markDifferentiable(graph, body.nodes);
    if (handOn(graph, flow.carried)) { // what is carried may take the gradient elsewhere
      for (auto [output, input] : flow.carried)
        graph.tensors[input].differentiable |= isFloating(graph.tensors[input].type);
      markDifferentiable(graph, body.nodes);
    }
    handOn(graph, flow.out);
  }
}

void markDifferentiable(Graph &graph, const std::vector<GraphNode> &nodes) {
  for (const GraphNode &node : nodes) {
    if (!node.bodies.empty()) {
      markBodies(graph, node);
      continue;
    }
    bool carries = false;
    for (TensorId id : node.inputs)
      carries = carries || (id != noTensor && graph.tensors[id].differentiable);
    carries = carries && passesGradients(node);
    for (TensorId id : node.outputs)
      if (id != noTensor)
        graph.tensors[id].differentiable = carries && isFloating(graph.tensors[id].type);
  }
}
} // namespace

void markDifferentiable(Graph &graph) {
  for (GraphTensor &tensor : graph.tensors)
    tensor.differentiable = tensor.role == TensorRole::Parameter;
  markDifferentiable(graph, graph.nodes);
}

} // namespace heterplan
