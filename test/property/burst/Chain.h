// Chains of layers on one node, or series-parallel graphs whose layers run in their order, and the
// best widths of their layers by trying all of them: from the formulas of DeepPool alone, without
// any code of the planner.
#pragma once

#include "cost/ConstantCostModel.h"
#include "search/problem/Problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace heterplan::test {

struct ChainLayer {
  double forward = 1, backward = 2;  // seconds of a sample
  double overhead = 0, update = 0;   // seconds of each pass, of an iteration
  double parameters = 0, output = 0; // bytes; those of a sample
  double kept = 0, workspace = 0;    // bytes of a sample
  std::vector<int> consumers = {};   // of its output; empty: the next layer
};

/// The value of a choice of widths for all layers.
struct Worth {
  bool allowed = false;
  double time = 0, deviceTime = 0;
  double need = 0; // bytes of the first device
  int widest = 1;
};

enum class Least { Time, DeviceTime, Cost };

class Chain {
public:
  std::vector<ChainLayer> layers;
  int64_t batch = 32;
  int devices = 8; // of each node
  int nodes = 1;
  double bandwidth = 1e3, latency = 1e-3; // bytes a second, seconds
  double memory = 1e18;
  double limit = 0, longest = 0; // 0: none
  double fraction = 0;           // of the memory that may be used; 0: all
  int mostUsed = 0;              // devices; 0: all
  double mostCost = 0;           // of 10^6 samples; 0: any

  Problem problem(Objective objective = Objective::Throughput) {
    LayerGraph graph;
    graph.model = "chain";
    costs = {};
    for (size_t i = 0; i < layers.size(); ++i) {
      const ChainLayer &from = layers[i];
      Layer &layer = graph.layers.emplace_back();
      layer.name = layer.signature = "layer" + std::to_string(i);
      layer.parameterBytes = Bytes(from.parameters);
      layer.activationBytes = Bytes(from.kept);
      layer.workspaceBytes = Bytes(from.workspace);
      costs.layer(layer.name, {Seconds(from.forward), Seconds(from.backward), Seconds(from.update),
                               Seconds(from.overhead)});
      if (i + 1 == layers.size())
        break;
      LayerTensor &tensor = graph.tensors.emplace_back();
      tensor.name = "tensor" + std::to_string(i);
      tensor.producer = int(i);
      tensor.consumers = from.consumers.empty() ? std::vector{int(i) + 1} : from.consumers;
      tensor.bytesPerSample = Bytes(from.output);
    }
    Cluster cluster;
    cluster.name = "pool";
    DeviceType &type = cluster.types.emplace_back();
    type.name = "gpu";
    type.memory = Bytes(memory);
    type.price = DollarsPerHour(1);
    NodeGroup &node = cluster.nodes.emplace_back();
    node.name = "node";
    node.devices["gpu"] = devices;
    node.count = nodes;
    node.link = {"", BytesPerSecond(bandwidth), Seconds(latency), ""};
    cluster.network = node.link;
    Request request;
    request.globalBatch = Samples(batch);
    request.schedule = ScheduleChoice::Burst;
    request.iterationModel = IterationModel::Burst;
    request.objective = objective;
    request.amplificationLimit = limit;
    if (longest > 0)
      request.minThroughput = SamplesPerSecond(double(batch) / longest);
    request.maxMemoryFraction = fraction;
    if (mostUsed > 0)
      request.deviceLimits = {{"gpu", mostUsed}};
    request.maxCostPerMillionSamples = Dollars(mostCost);
    llvm::ExitOnError check;
    return check(Problem::create(graph, cluster, costs, request));
  }

  std::vector<int> widths() const {
    std::vector<int> result;
    int most = mostUsed > 0 ? std::min(devices, mostUsed) : devices;
    for (int width = 1; width <= most && batch % width == 0; width *= 2)
      result.push_back(width);
    return result;
  }

  double computing(size_t layer, int width) const {
    const ChainLayer &of = layers[layer];
    double samples = double(batch) / width;
    return 2 * of.overhead + (of.forward + of.backward) * samples + of.update;
  }

  /// Bytes of a sample that layers up to `layer` make and later ones use.
  double crossing(size_t layer) const {
    double result = 0;
    for (size_t i = 0; i <= layer; ++i) {
      const std::vector<int> &users = layers[i].consumers;
      if (i == layer ? true : !users.empty() && users.back() > int(layer))
        result += layers[i].output;
    }
    return result;
  }

  /// Forward, and as much backward, where a stage on `before` devices ends at `layer`.
  double moving(size_t layer, int before, int after) const {
    double bytes = crossing(layer);
    if (before == after || bytes == 0)
      return 0;
    double samples = std::abs(double(batch) / before - double(batch) / after);
    return latency + samples * bytes / bandwidth;
  }

  double amplification(const std::vector<int> &width, size_t layer) const {
    int own = width[layer];
    double spent =
        computing(layer, own) + 2.0 * (own - 1) / own * layers[layer].parameters / bandwidth;
    if (layer > 0)
      spent += 2 * moving(layer - 1, width[layer - 1], own);
    return own * spent / computing(layer, 1);
  }

  Worth worth(const std::vector<int> &width) const {
    Worth result;
    double passes = 0, updates = 0, open = 0, need = 0;
    for (size_t end = layers.size(); end > 0;) { // stages, the last one first
      size_t begin = end - 1;
      while (begin > 0 && width[begin - 1] == width[begin])
        --begin;
      int own = width[begin];
      double samples = double(batch) / own, backward = 0, stage = 0, bytes = 0, scratch = 0;
      double largest = 0;
      for (size_t i = begin; i < end; ++i) {
        backward += layers[i].overhead + layers[i].backward * samples;
        stage += computing(i, own);
        updates += layers[i].update;
        passes -= layers[i].update;
        bytes += layers[i].parameters;
        need += layers[i].kept * samples + 2 * layers[i].parameters;
        scratch = std::max(scratch - layers[i].kept, layers[i].workspace);
        largest = std::max(largest, layers[i].parameters);
      }
      if (begin > 0) // with its gradient
        need += 2 * crossing(begin - 1) * samples;
      if (end < layers.size()) // what is sent stays until its gradient is there
        need += 2 * crossing(end - 1) * samples;
      need += scratch * samples + largest; // with a gradient that is new
      double receive = begin > 0 ? moving(begin - 1, width[begin - 1], own) : 0;
      double gradient = end < layers.size() ? moving(end - 1, own, width[end]) : 0;
      double sum =
          bytes > 0 ? 2.0 * (own - 1) / own * bytes / bandwidth + 2 * (own - 1) * latency : 0;
      passes += stage + receive + gradient;
      open = std::max(0.0, open - backward - gradient) + sum;
      result.deviceTime += own * (stage + receive + gradient + sum);
      result.widest = std::max(result.widest, own);
      end = begin;
    }
    result.time = passes + open + updates;
    result.need = need;
    result.allowed = need <= memory * (fraction > 0 ? fraction : 1);
    result.allowed &= longest == 0 || result.time <= longest * (1 + 1e-9);
    result.allowed &= mostCost == 0 || value(result, Least::Cost) <= mostCost * (1 + 1e-9);
    for (size_t i = 0; limit > 0 && i < layers.size(); ++i)
      result.allowed &= amplification(width, i) <= limit * (1 + 1e-9);
    return result;
  }

  double value(const Worth &worth, Least least) const {
    return least == Least::Time         ? worth.time
           : least == Least::DeviceTime ? worth.deviceTime
                                        : worth.widest * worth.time / 3600 / double(batch) * 1e6;
  }

  /// The least value of all widths that are allowed; infinite where none are. The least time of the
  /// remaining layers prunes the enumeration.
  double bruteForce(Least least) const {
    double best = std::numeric_limits<double>::infinity();
    for (int own : widths())
      take(std::vector<int>(layers.size(), own), least, best);
    std::vector<double> rest(layers.size() +
                             1); // of the layers from each on, whatever their widths
    for (size_t layer = layers.size(); layer-- > 0;) {
      double most = std::numeric_limits<double>::infinity();
      for (int own : widths())
        most = std::min(most, spent(layer, own, least));
      rest[layer] = rest[layer + 1] + most;
    }
    std::vector<int> width;
    extend(width, least, 0, rest, best);
    return best;
  }

private:
  double spent(size_t layer, int width, Least least) const {
    double time = computing(layer, width);
    return least == Least::Time         ? time
           : least == Least::DeviceTime ? width * time
                                        : time * 1e6 / 3600 / double(batch);
  }

  void take(const std::vector<int> &width, Least least, double &best) const {
    if (Worth found = worth(width); found.allowed)
      best = std::min(best, value(found, least));
  }

  void extend(std::vector<int> &width, Least least, double sum, const std::vector<double> &rest,
              double &best) const {
    size_t layer = width.size();
    if (layer == layers.size())
      return take(width, least, best);
    if (sum + rest[layer] > best)
      return;
    for (int own : widths()) {
      width.push_back(own);
      if (limit == 0 || amplification(width, layer) <= limit * (1 + 1e-9))
        extend(width, least, sum + spent(layer, own, least), rest, best);
      width.pop_back();
    }
  }

  ConstantCostModel costs;
};

/// A random chain; deterministic by seed.
inline Chain randomChain(uint64_t seed, int mostLayers, int mostWidths) {
  std::mt19937_64 random(seed);
  auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  auto below = [&](int limit) { return int(random() % uint64_t(limit)); };
  Chain chain;
  int layers = 1 + below(mostLayers);
  chain.devices = (1 << below(mostWidths)) + below(2);
  chain.batch = 16 * (1 + below(3));
  chain.bandwidth = real(200, 5000);
  chain.latency = below(2) ? 0 : real(0, 0.05);
  constexpr double limits[] = {0, 1.1, 1.5, 2, 4};
  chain.limit = limits[below(5)];
  for (int i = 0; i < layers; ++i) {
    ChainLayer &layer = chain.layers.emplace_back();
    layer.forward = real(0.001, 0.1);
    layer.backward = real(0.5, 3) * layer.forward;
    layer.overhead = below(2) ? 0 : real(0, 0.2);
    layer.update = below(2) ? 0 : real(0, 0.1);
    layer.parameters = below(3) ? real(0, 2000) : 0;
    layer.output = below(5) ? real(0, 40) : 0;
    layer.kept = real(0, 30);
    layer.workspace = real(0, 10);
  }
  return chain;
}

/// A random series-parallel graph: forks whose branches, chains or forks themselves, meet again.
class SeriesParallelGraph {
public:
  SeriesParallelGraph(uint64_t seed, int mostLayers, int mostWidths)
      : chain(randomChain(seed, mostLayers, mostWidths)), random(seed * 77 + 5) {
    int layers = int(chain.layers.size());
    compose(0, layers);
    for (ChainLayer &layer : chain.layers)
      std::sort(layer.consumers.begin(), layer.consumers.end());
    chain.layers.back().consumers.clear();
  }

  /// Its first layer, its last, and the layers of each branch between them.
  struct Fork {
    int first = 0, last = 0;
    std::vector<std::pair<int, int>> branches; // begin, end
  };

  Chain chain;
  std::vector<Fork> forks;

private:
  int below(int limit) { return int(random() % uint64_t(limit)); }
  void connect(int from, int to) { chain.layers[from].consumers.push_back(to); }

  /// Layers [begin, end): connected from the first to the last.
  void compose(int begin, int end) {
    if (end - begin >= 4 && below(3) > 0)
      return fork(begin, end);
    if (end - begin < 2)
      return;
    int middle = begin + 1 + below(end - begin - 1);
    compose(begin, middle);
    connect(middle - 1, middle);
    compose(middle, end);
  }

  /// The first layer goes to all branches, which meet at the last; now and then past them, too.
  void fork(int begin, int end) {
    Fork fork{begin, end - 1, {}};
    for (int first = begin + 1; first < end - 1;) {
      int next = first + 1 + below(std::min(4, end - 1 - first));
      fork.branches.push_back({first, next});
      connect(begin, first);
      compose(first, next);
      connect(next - 1, end - 1);
      first = next;
    }
    if (below(3) == 0)
      connect(begin, end - 1);
    forks.push_back(std::move(fork));
  }

  std::mt19937_64 random;
};

} // namespace heterplan::test
