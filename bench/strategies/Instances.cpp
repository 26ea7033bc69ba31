#include "Instances.h"

#include "Bundled.h"

#include "search/Search.h"

#include <cmath>
#include <random>

using namespace llvm;

namespace heterplan::bench {

namespace {
/// The same numbers on every platform, unlike the distributions of the standard library.
class Dice {
public:
  explicit Dice(uint64_t seed) : generator(seed) {}
  double real(double low, double high) {
    return low + (high - low) * double(generator() >> 11) * 0x1p-53;
  }
  /// Evenly in the logarithm.
  double scale(double low, double high) { return low * std::pow(high / low, real(0, 1)); }
  int whole(int low, int high) { return low + int(generator() % uint64_t(high - low + 1)); }

private:
  std::mt19937_64 generator;
};

Layer lookUp(Dice &dice, double &width) {
  Layer layer;
  layer.kind = LayerKind::Embedding;
  double slots = dice.whole(4, 32), columns = 16 * dice.whole(1, 4), ids = dice.whole(1, 8);
  width = slots * columns;
  layer.parameterBytes = Bytes(4 * columns * std::round(dice.scale(3e3, 1e5)));
  layer.forwardFlops = layer.backwardFlops = Flops(width * ids);
  layer.forwardBytes = layer.backwardBytes = Bytes(4 * width * (ids + 1));
  return layer;
}

Layer dense(Dice &dice, double &width) {
  Layer layer;
  layer.kind = LayerKind::MatMul;
  double inputs = width;
  width = 64 * dice.whole(1, 16);
  layer.parameterBytes = Bytes(4 * inputs * width);
  layer.forwardFlops = Flops(2 * inputs * width);
  layer.backwardFlops = layer.forwardFlops * 2.0;
  layer.forwardBytes = Bytes(4 * (inputs + width));
  layer.backwardBytes = layer.forwardBytes * 2.0;
  return layer;
}
} // namespace

LayerGraph simulatedModel(int layers, uint64_t seed) {
  Dice dice(seed);
  LayerGraph graph;
  graph.model = "simulated-" + std::to_string(layers);
  double width = 512;
  for (int i = 0; i < layers; ++i) {
    bool sparse = i == 0 || dice.whole(1, 8) == 1;
    Layer layer = sparse ? lookUp(dice, width) : dense(dice, width);
    layer.name = layer.signature = (sparse ? "embedding" : "dense") + std::to_string(i);
    layer.activationBytes = Bytes(4 * width);
    graph.layers.push_back(std::move(layer));
    if (i + 1 == layers)
      break;
    LayerTensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.producer = i;
    tensor.consumers = {i + 1};
    tensor.bytesPerSample = Bytes(4 * width);
    graph.tensors.push_back(std::move(tensor));
  }
  return graph;
}

Cluster simulatedCluster(int types, uint64_t seed) {
  Dice dice(seed);
  Cluster cluster;
  cluster.name = "simulated-" + std::to_string(types);
  for (int i = 0; i < types; ++i) {
    bool cpu = i % 3 == 0;
    double speed = cpu ? dice.scale(2, 8) : dice.scale(4, 60); // TFLOP/s
    DeviceType type;
    type.name = (cpu ? "cpu" : "gpu") + std::to_string(i);
    type.deviceClass = cpu ? DeviceClass::Cpu : DeviceClass::Gpu;
    type.memory = Bytes((cpu ? 192e9 : 16e9) * dice.whole(1, 4));
    PeakRates rates;
    rates.fp32 = FlopsPerSecond(speed * 1e12);
    rates.memory = BytesPerSecond((cpu ? dice.scale(100, 500) : dice.scale(300, 3000)) * 1e9);
    rates.source = "simulated";
    type.price = DollarsPerHour(0.25 * std::pow(speed, 0.8) * dice.scale(0.5, 2));
    type.rates = rates;
    cluster.types.push_back(std::move(type));
    NodeGroup group;
    group.name = "n" + std::to_string(i);
    group.count = dice.whole(2, 4);
    group.devices[cluster.types.back().name] = cpu ? 4 : 8;
    group.link = {"", BytesPerSecond(dice.scale(10, 300) * 1e9), Seconds(5e-6), ""};
    cluster.nodes.push_back(std::move(group));
  }
  cluster.network = {"", BytesPerSecond(12.5e9), Seconds(1e-5), ""};
  return cluster;
}

Cluster testbed(int cpus, int gpus) {
  Cluster cluster = readBundledCluster("heterps-testbed");
  for (NodeGroup &group : cluster.nodes) {
    auto &[type, each] = *group.devices.begin();
    int total =
        cluster.types[cluster.typeIndex(type)].deviceClass == DeviceClass::Cpu ? cpus : gpus;
    each = std::min(each, total);
    group.count = total / each;
  }
  return cluster;
}

Instance makeInstance(std::string name, LayerGraph graph, Cluster cluster,
                      IterationModel iterationModel, Objective objective, double load,
                      int64_t globalBatch, const SearchOptions &forFloor) {
  ExitOnError check;
  Instance instance{std::move(name),
                    std::make_shared<RooflineModel>(Optimizer::Sgd, Precision::Fp32), nullptr};
  Request request;
  request.globalBatch = Samples(globalBatch);
  request.iterationModel = iterationModel;
  if (load > 0) {
    Problem fastest = check(Problem::create(graph, cluster, *instance.costs, request));
    SearchOutcome outcome = check(search(fastest, "auto", forFloor));
    if (outcome.plan)
      request.minThroughput = outcome.plan->throughput * load;
  }
  request.objective = objective;
  instance.problem = std::make_shared<const Problem>(
      check(Problem::create(std::move(graph), std::move(cluster), *instance.costs, request)));
  return instance;
}

} // namespace heterplan::bench
