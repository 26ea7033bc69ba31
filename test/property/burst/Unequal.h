// Chains and series-parallel graphs, whose layers run in their order, on devices of several types.
#pragma once

#include "Chain.h"

namespace heterplan::test {

/// Seconds of one layer on one type.
struct UnequalTimes {
  double forward = 0, backward = 0, overhead = 0, update = 0;
  double passes(int64_t samples) const {
    return 2 * overhead + (forward + backward) * double(samples);
  }
};

struct UnequalType {
  std::string name;
  int count = 1; // in the only node that has it
  double price = 1;
  std::vector<UnequalTimes> layers = {};
};

class Unequal {
public:
  explicit Unequal(Chain of) : chain(std::move(of)) {}

  Chain chain; // its layers' sizes, links and limits
  std::vector<UnequalType> types;
  bool oneNode = true;           // else each type has its own
  double network = 1e3, far = 0; // bytes a second and latency between nodes

  Problem problem(Objective objective) {
    Problem result = chain.problem(objective);
    Cluster &cluster = result.cluster;
    Link link = cluster.nodes.front().link;
    cluster.types.clear();
    cluster.nodes.clear();
    costs = {};
    for (const UnequalType &from : types) {
      DeviceType &type = cluster.types.emplace_back();
      type.name = from.name;
      type.memory = Bytes(chain.memory);
      type.price = DollarsPerHour(from.price);
      if (cluster.nodes.empty() || !oneNode) {
        NodeGroup &node = cluster.nodes.emplace_back();
        node.name = "node-" + from.name;
        node.link = link;
      }
      cluster.nodes.back().devices[from.name] = from.count;
      for (size_t i = 0; i < from.layers.size(); ++i) {
        const UnequalTimes &times = from.layers[i];
        costs.entry("layer" + std::to_string(i), from.name,
                    {Seconds(times.forward), Seconds(times.backward), Seconds(times.update),
                     Seconds(times.overhead)});
      }
    }
    cluster.network.bandwidth = BytesPerSecond(network);
    cluster.network.latency = Seconds(far);
    llvm::ExitOnError check;
    return check(Problem::create(result.graph, cluster, costs, result.request));
  }

private:
  ConstantCostModel costs;
};

/// Random devices of up to `mostTypes` types for the layers of `chain`; deterministic by seed.
inline Unequal unequalDevices(uint64_t seed, Chain chain, int mostTypes) {
  std::mt19937_64 random(seed * 91 + 3);
  auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  auto below = [&](int limit) { return int(random() % uint64_t(limit)); };
  Unequal result(std::move(chain));
  result.oneNode = below(2) == 0;
  result.network = real(100, 4000);
  result.far = below(2) ? 0 : real(0, 0.05);
  int count = 2 + below(mostTypes - 1);
  for (int type = 0; type < count; ++type) {
    UnequalType &of = result.types.emplace_back();
    of.name = std::string(1, char('a' + type)) + "-type";
    of.count = 1 + below(4);
    of.price = real(0.2, 2);
    double slowdown = type == 0 ? 1 : real(1, 6);
    for (const ChainLayer &layer : result.chain.layers) {
      double own = slowdown * (below(3) ? 1 : real(0.5, 2)); // some layers suit some devices
      of.layers.push_back(
          {own * layer.forward, own * layer.backward, own * layer.overhead, own * layer.update});
    }
  }
  return result;
}

} // namespace heterplan::test
