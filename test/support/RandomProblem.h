// Small random planning problems, for laws that must hold on all of them.
#pragma once

#include "cost/ConstantCostModel.h"
#include "search/problem/Problem.h"

#include <algorithm>
#include <random>
#include <string>

namespace heterplan::test {

/// A problem with the cost model that it refers to. Deterministic by seed. About half of them have
/// tight memory, a third have side branches, as many sparse tables, some have a floor, a budget, a
/// pin, statistics that replicas sum, or layers that are to be together or apart. In a third of
/// those with several device types two of them lie in each of two nodes.
class RandomProblem {
public:
  explicit RandomProblem(uint64_t seed)
      : random(seed), tableRandom(~seed), nodeRandom(seed * 2 + 1) {
    makeGraph();
    addTables();
    addInPassAllReduces();
    makeCluster();
    makeRequest();
    joinNodes();
  }

  llvm::Expected<Problem> problem() const {
    return Problem::create(graph, cluster, costs, request);
  }

  LayerGraph graph;
  Cluster cluster;
  ConstantCostModel costs;
  Request request;

private:
  int uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  bool chance(int percent) { return uniform(1, 100) <= percent; }

  void makeGraph() {
    graph.model = "random";
    int layers = uniform(1, 5);
    for (int i = 0; i < layers; ++i) {
      Layer layer;
      layer.name = "layer" + std::to_string(i);
      layer.signature = layer.name;
      layer.parameterBytes = Bytes(uniform(0, 400));
      layer.activationBytes = Bytes(uniform(0, 40));
      layer.workspaceBytes = Bytes(uniform(0, 10));
      graph.layers.push_back(layer);
    }
    bool flows = chance(80);
    for (int i = 0; flows && i + 1 < layers; ++i)
      addTensor("t" + std::to_string(i), i, {i + 1});
    if (flows && layers > 2 && chance(33))
      addTensor("skip", 0, {layers - 1});
  }

  /// In half of the layers of a third of the problems. From numbers of their own: problems are else
  /// what they would be without tables.
  void addTables() {
    auto below = [&](int limit) { return static_cast<int>(tableRandom() % limit); };
    if (below(3) == 0)
      for (Layer &layer : graph.layers)
        if (below(2) == 0)
          addTable(layer, 1 + below(60), 1 + below(4), 1 + below(3));
  }

  /// In half of the layers of a quarter of the problems, from the same numbers.
  void addInPassAllReduces() {
    auto below = [&](int limit) { return static_cast<int>(tableRandom() % limit); };
    if (below(4) == 0)
      for (Layer &layer : graph.layers)
        if (below(2) == 0) {
          layer.inPassAllReduces = 1 + below(3);
          layer.inPassAllReduceBytes = Bytes(below(20));
        }
  }

  static void addTable(Layer &layer, int rows, int columns, int lookups) {
    SparseTable table{layer.name + ".table", rows, columns, DataType::Float32, lookups};
    layer.parameters.push_back(table.parameter);
    layer.parameterBytes += table.bytes();
    layer.tables.push_back(std::move(table));
  }

  void addTensor(const std::string &name, int producer, std::vector<int> consumers) {
    LayerTensor tensor;
    tensor.name = name;
    tensor.producer = producer;
    tensor.consumers = std::move(consumers);
    tensor.bytesPerSample = Bytes(uniform(0, 30));
    tensor.differentiable = chance(90);
    graph.tensors.push_back(tensor);
  }

  void makeCluster() {
    cluster.name = "random";
    int types = uniform(1, 3), devices = 0;
    bool tight = chance(50);
    for (int i = 0; i < types; ++i) {
      DeviceType type;
      type.name = "type" + std::to_string(i);
      type.deviceClass = i == 0 ? DeviceClass::Cpu : DeviceClass::Gpu;
      type.memory = Bytes(tight ? uniform(300, 3000) : 1e9);
      type.price = DollarsPerHour(real(0.1, 4));
      cluster.types.push_back(type);
      NodeGroup group;
      group.name = "group" + std::to_string(i);
      int perNode = uniform(1, 3 - std::min(2, devices / 2));
      group.count = devices + 2 * perNode <= 5 ? uniform(1, 2) : 1;
      group.devices[type.name] = perNode;
      devices += group.count * perNode;
      group.link = {"", BytesPerSecond(real(50, 1000)), Seconds(real(0, 0.01)), ""};
      cluster.nodes.push_back(group);
      costs.speed(type.name, real(0.3, 3));
    }
    cluster.network = {"", BytesPerSecond(real(20, 500)), Seconds(real(0, 0.02)), ""};
    for (const Layer &layer : graph.layers) {
      ConstantCostModel::Times times{Seconds(real(0.01, 1)), Seconds(real(0.01, 2)),
                                     Seconds(chance(50) ? 0 : real(0, 0.1)), Seconds(real(0, 0.2))};
      times.accumulate = times.update / 2;
      costs.layer(layer.name, times);
      if (chance(20)) // a layer that one type is unusually good or bad at
        costs.entry(
            layer.name, "type0",
            {Seconds(real(0.01, 3)), Seconds(real(0.01, 3)), Seconds(0), Seconds(real(0, 0.1))});
    }
  }

  /// From numbers of their own, too. Six devices at most, linked faster than by the network.
  void joinNodes() {
    auto below = [&](int limit) { return static_cast<int>(nodeRandom() % limit); };
    if (cluster.nodes.size() < 2 || below(3) > 0)
      return;
    cluster.nodes.erase(cluster.nodes.begin() + 1);
    NodeGroup &joined = cluster.nodes.front();
    const bool areTwo = cluster.types.size() == 2;
    joined.count = 2;
    joined.devices = {{cluster.types[0].name, areTwo ? 1 + below(2) : 1},
                      {cluster.types[1].name, 1}};
    joined.link.bandwidth = cluster.network.bandwidth * double(1 + below(8));
    joined.link.latency = cluster.network.latency * 0.5;
    for (size_t other = 1; other < cluster.nodes.size(); ++other) {
      cluster.nodes[other].count = 1;
      cluster.nodes[other].devices.begin()->second = 1;
    }
  }

  void makeRequest() {
    request.globalBatch = Samples(uniform(1, 8));
    request.objective = chance(50) ? Objective::Throughput : Objective::Cost;
    if (chance(30))
      request.minThroughput = SamplesPerSecond(real(0.1, 3));
    if (chance(30))
      request.maxCostPerHour = DollarsPerHour(real(0.5, 10));
    if (chance(20))
      request.pins.push_back({graph.layers[uniform(0, graph.size() - 1)].name,
                              cluster.types[uniform(0, int(cluster.types.size()) - 1)].name});
    if (chance(20))
      request.schedule = chance(50) ? ScheduleChoice::Pipeline : ScheduleChoice::DataParallel;
    request.optimizer = static_cast<Optimizer>(uniform(0, 2));
    if (chance(12))
      request.colocations = layerSets(2);
    if (chance(12))
      request.separations = layerSets(uniform(2, 3));
  }

  /// One set of `size` layers, or none where the model has fewer.
  std::vector<LayerSet> layerSets(size_t size) {
    LayerSet names;
    for (const Layer &layer : graph.layers)
      names.push_back(layer.name);
    std::shuffle(names.begin(), names.end(), random);
    if (names.size() < size)
      return {};
    names.resize(size);
    return {names};
  }

  std::mt19937_64 random, tableRandom, nodeRandom;
};

/// Puts each group of nodes in a zone of its own, with so long a way to the others.
inline void putNodesInZones(RandomProblem &random, Seconds latency) {
  for (NodeGroup &nodes : random.cluster.nodes) {
    nodes.zone = "zone of " + nodes.name;
    random.cluster.zones.push_back({nodes.zone, random.cluster.network, Dollars(0), {}});
  }
  random.cluster.network.latency = latency;
}

/// One type in so many nodes of four that stages fill nodes (TypeRoom::perNode), few of which may
/// be used, with a link that is faster than the network.
inline void makeNodesThatAreFilled(RandomProblem &random, int most) {
  random.cluster.types.resize(1);
  random.cluster.nodes.resize(1);
  NodeGroup &nodes = random.cluster.nodes.front();
  nodes.count = 17;
  nodes.devices = {{random.cluster.types.front().name, 4}};
  nodes.link.bandwidth = random.cluster.network.bandwidth * 4;
  nodes.link.latency = random.cluster.network.latency * 0.5;
  random.request.deviceLimits = {{random.cluster.types.front().name, most}};
  random.request.pins.clear();
}

} // namespace heterplan::test
