#include "ir/onnx/group/Counts.h"

#include "ir/onnx/group/Operators.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace heterplan {

namespace {

bool isProduct(LayerKind kind) {
  return kind == LayerKind::Convolution || kind == LayerKind::DepthwiseConvolution ||
         kind == LayerKind::MatMul || kind == LayerKind::BatchedMatMul ||
         kind == LayerKind::Recurrent;
}

class Counter {
public:
  Counter(const LayerGraph &layers, const Graph &graph) : layers(layers), facts(graph) {
    for (const GraphTensor &tensor : graph.tensors)
      if (tensor.role == TensorRole::Parameter)
        elements[tensor.name] = elementCount(tensor.shape, 0);
    for (const GraphNode &node : graph.nodes)
      nodes[node.name] = &node;
  }

  std::vector<LayerCounts> run() {
    std::vector<LayerCounts> result;
    for (const Layer &layer : layers.layers) {
      result.emplace_back();
      for (const std::string &name : layer.parameters)
        if (counted.insert(name).second)
          result.back().parameters += elements.lookup(name);
      for (const std::string &name : layer.nodes)
        if (const GraphNode *node = nodes.lookup(name))
          result.back().macs += macsOf(*node);
    }
    return result;
  }

private:
  const LayerGraph &layers;
  GraphFacts facts;
  StringMap<double> elements;         // of parameters
  StringMap<const GraphNode *> nodes; // by name
  StringSet<> counted;

  double macsOf(const GraphNode &node) const {
    OperatorCost cost = costOf(node, facts);
    return isProduct(cost.kind) ? cost.forwardFlops / 2 : 0;
  }
};

} // namespace

std::vector<LayerCounts> countLayers(const LayerGraph &layers, const Graph *graph) {
  if (graph)
    return Counter(layers, *graph).run();
  std::vector<LayerCounts> result;
  for (const Layer &layer : layers.layers)
    result.push_back({layer.parameterBytes.value() / double(sizeOf(DataType::Float32)),
                      layer.forwardFlops.value() / 2});
  return result;
}

} // namespace heterplan
