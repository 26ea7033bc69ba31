// A model of two layers and a cluster of one type, for figures that are worked out by hand.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"

namespace heterplan::test {

/// Layers a and b of `parameters` each, and a tensor of `between` a sample from a to b.
inline LayerGraph twoLayers(Bytes parameters, Bytes between) {
  LayerGraph graph;
  for (const char *name : {"a", "b"}) {
    Layer layer;
    layer.name = layer.signature = name;
    layer.parameterBytes = parameters;
    graph.layers.push_back(layer);
  }
  LayerTensor tensor;
  tensor.name = "t";
  tensor.consumers = {1};
  tensor.bytesPerSample = between;
  graph.tensors.push_back(tensor);
  return graph;
}

/// `count` nodes of one device of type "box" each, 100 B/s and `latency` between them.
inline Cluster boxes(int count, Seconds latency) {
  Cluster cluster;
  DeviceType type;
  type.name = "box";
  type.memory = Bytes(1e6);
  type.price = DollarsPerHour(3.6);
  cluster.types.push_back(type);
  NodeGroup group;
  group.name = "node";
  group.count = count;
  group.devices["box"] = 1;
  group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
  cluster.nodes.push_back(group);
  cluster.network = {"", BytesPerSecond(100), latency, ""};
  return cluster;
}

} // namespace heterplan::test
