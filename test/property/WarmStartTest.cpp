// How soon learning is close to its best plan, and policies that are saved and read back.
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

TEST(WarmStart, LearningIsCloseToItsBestPlanAfterLittleWork) {
  constexpr int seeds = 16;
  double work = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Course course = learn(Pool(seed), seed, "", "");
    work += course.until(1.01 * course.final) / seeds;
  }
  RecordProperty("work", std::to_string(work));
  EXPECT_LT(work, 0.25);
}

TEST(WarmStart, ASavedPolicyIsReadBack) {
  std::string file = (std::filesystem::temp_directory_path() /
                      ("heterplan-warm-start-" + std::to_string(getpid())))
                         .string();
  Course first = learn(Pool(100), 0, "", file), second = learn(Pool(100), 0, file, ""),
         third = learn(Pool(100), 0, file, "");
  std::filesystem::remove(file);
  EXPECT_EQ(second.points, third.points);
  EXPECT_NE(first.points, second.points) << "the saved policy is another one than the first";
}
