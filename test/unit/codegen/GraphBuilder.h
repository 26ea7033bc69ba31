// Small graphs for the tests of the emitters, built by hand: one layer a node.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <string>
#include <vector>

namespace heterplan {

/// N x sizes.
inline Shape batched(std::vector<int64_t> sizes) {
  Shape shape{Dim{1, 0}};
  for (int64_t size : sizes)
    shape.push_back(Dim{0, size});
  return shape;
}

inline Shape fixedShape(std::vector<int64_t> sizes) {
  Shape shape;
  for (int64_t size : sizes)
    shape.push_back(Dim{0, size});
  return shape;
}

template <typename T>
TensorData values(DataType type, std::vector<int64_t> shape, std::vector<T> items) {
  TensorData data;
  data.type = type;
  data.shape.assign(shape.begin(), shape.end());
  data.bytes.resize(items.size() * sizeof(T));
  std::memcpy(data.bytes.data(), items.data(), data.bytes.size());
  return data;
}

struct GraphBuilder {
  Graph graph;

  GraphBuilder() {
    graph.name = "tiny";
    graph.opset = 17;
  }

  TensorId tensor(std::string name, TensorRole role, Shape shape,
                  DataType type = DataType::Float32) {
    GraphTensor tensor;
    tensor.name = std::move(name);
    tensor.role = role;
    tensor.shape = std::move(shape);
    tensor.type = type;
    graph.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(graph.tensors.size()) - 1;
  }
  TensorId input(std::string name, Shape shape, DataType type = DataType::Float32) {
    graph.inputs.push_back(tensor(std::move(name), TensorRole::Input, std::move(shape), type));
    return graph.inputs.back();
  }
  TensorId parameter(std::string name, std::vector<int64_t> shape) {
    return tensor(std::move(name), TensorRole::Parameter, fixedShape(std::move(shape)));
  }
  TensorId constant(std::string name, TensorData data) {
    Shape shape = fixedShape({data.shape.begin(), data.shape.end()});
    TensorId id = tensor(std::move(name), TensorRole::Constant, std::move(shape), data.type);
    graph.tensors[id].data = std::move(data);
    return id;
  }
  /// A node with one output of shape `shape`, called like the node.
  TensorId node(std::string name, std::string op, std::vector<TensorId> inputs, Shape shape,
                std::map<std::string, Attribute> attributes = {},
                DataType type = DataType::Float32) {
    TensorId output = tensor(name, TensorRole::Activation, std::move(shape), type);
    GraphNode node;
    node.name = std::move(name);
    node.op = std::move(op);
    node.inputs.assign(inputs.begin(), inputs.end());
    node.outputs = {output};
    node.attributes = std::move(attributes);
    graph.nodes.push_back(std::move(node));
    return output;
  }

  /// One layer for each node, and what flows between them.
  LayerGraph layers() const {
    LayerGraph result;
    result.model = graph.name;
    std::vector<int> producer(graph.tensors.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Layer layer;
      layer.name = layer.signature = graph.nodes[i].name;
      layer.nodes = {graph.nodes[i].name};
      result.layers.push_back(layer);
      for (TensorId output : graph.nodes[i].outputs)
        if (output != noTensor)
          producer[output] = static_cast<int>(i);
    }
    for (size_t tensor = 0; tensor < graph.tensors.size(); ++tensor)
      if (producer[tensor] >= 0)
        result.tensors.push_back(flowing(static_cast<TensorId>(tensor), producer[tensor]));
    return result;
  }

  /// Stages that begin at the layers 0 and `cuts`.
  Plan plan(std::vector<int> cuts = {}) const {
    Plan result;
    result.model = graph.name;
    int layer = 0;
    cuts.push_back(static_cast<int>(graph.nodes.size()));
    for (int end : cuts) {
      Stage stage;
      stage.id = static_cast<int>(result.stages.size());
      for (; layer < end; ++layer)
        stage.layers.push_back(graph.nodes[layer].name);
      result.stages.push_back(stage);
    }
    return result;
  }

private:
  LayerTensor flowing(TensorId id, int producer) const {
    LayerTensor tensor;
    tensor.name = graph.tensors[id].name;
    tensor.producer = producer;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (llvm::is_contained(graph.nodes[i].inputs, id))
        tensor.consumers.push_back(static_cast<int>(i));
    return tensor;
  }
};

} // namespace heterplan
