// A saved policy helps on another problem of the kind that it was trained on.
#include "cost/ConstantCostModel.h"
#include "search/Search.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <random>

#include <unistd.h>

using namespace heterplan;

namespace {
/// A chain of layers and four types of eight devices each; every layer is much faster on one of the
/// types than its price is higher. Different layers for each seed.
struct Pool {
  LayerGraph graph;
  Cluster cluster;
  ConstantCostModel costs;
  Request request;

  explicit Pool(uint64_t seed) {
    constexpr int layers = 24, types = 4;
    std::mt19937_64 random(seed);
    for (int t = 0; t < types; ++t) {
      DeviceType type;
      type.name = "type" + std::to_string(t);
      type.deviceClass = t == 0 ? DeviceClass::Cpu : DeviceClass::Gpu;
      type.memory = Bytes(1e12);
      type.price = DollarsPerHour(1 + t);
      cluster.types.push_back(type);
      NodeGroup group;
      group.name = "n" + std::to_string(t);
      group.devices[type.name] = 8;
      group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
      cluster.nodes.push_back(group);
    }
    cluster.network = {"", BytesPerSecond(1e9), Seconds(0), ""};
    for (int i = 0; i < layers; ++i) {
      Layer layer;
      layer.name = layer.signature = "layer" + std::to_string(i);
      graph.layers.push_back(layer);
      int good = int(random() % types);
      for (int t = 0; t < types; ++t) {
        double seconds = (t == good ? 0.1 : 1.0) * (0.5 + double(random() % 1000) / 1000);
        costs.entry(layer.name, cluster.types[t].name,
                    {Seconds(seconds), Seconds(2 * seconds), Seconds(0), Seconds(0)});
      }
    }
    request.globalBatch = Samples(64);
    request.objective = Objective::Cost;
    request.iterationModel = IterationModel::SteadyState;
  }
};

struct Course {
  std::vector<std::pair<double, double>> points; // share of the work done, best so far
  double final = 0;

  /// Share of the work until the best was at most `target`.
  double until(double target) const {
    for (auto [done, best] : points)
      if (best <= target)
        return done;
    return 1;
  }
};

Course learn(const Pool &pool, uint64_t seed, const std::string &policyIn,
             const std::string &policyOut) {
  Problem problem =
      llvm::cantFail(Problem::create(pool.graph, pool.cluster, pool.costs, pool.request));
  Course run;
  SearchOptions options;
  options.seed = seed;
  options.workLimit = 1'000'000;
  options.policyIn = policyIn;
  options.policyOut = policyOut;
  options.progress = [&](double done, double best) { run.points.push_back({done, best}); };
  SearchOutcome outcome = llvm::cantFail(search(problem, "rl-lstm", options));
  run.final = outcome.plan->objectiveValue;
  return run;
}
} // namespace

TEST(WarmStart, aPolicyOfASimilarProblemSavesWork) {
  std::string file = (std::filesystem::temp_directory_path() /
                      ("heterplan-warm-start-" + std::to_string(getpid())))
                         .string();
  learn(Pool(100), 0, "", file);
  constexpr int seeds = 16;
  double cold = 0, warm = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Pool pool(seed);
    Course without = learn(pool, seed, "", ""), with = learn(pool, seed, file, "");
    double target = 1.01 * std::min(without.final, with.final);
    cold += without.until(target) / seeds;
    warm += with.until(target) / seeds;
  }
  std::filesystem::remove(file);
  RecordProperty("cold", std::to_string(cold));
  RecordProperty("warm", std::to_string(warm));
  EXPECT_LT(warm, cold / 2);
}
