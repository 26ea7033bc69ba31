#include "Fixture.h"

#include "cost/ConstantCostModel.h"
#include "search/jobs/read/ModelTimes.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// One layer: 10 ms a pass and 1 ms a sample forward, twice that backward; 1 GB of parameters, 1 GB
/// of activations a sample.
struct Model {
  Model() {
    Layer layer;
    layer.name = layer.signature = "a";
    layer.parameterBytes = Bytes(1e9);
    layer.activationBytes = Bytes(1e9);
    graph.layers.push_back(layer);
    costs.layer("a", {Seconds(0.001), Seconds(0.002), Seconds(0), Seconds(0.01)});
  }
  LayerGraph graph;
  ConstantCostModel costs;
  Cluster cluster = twoGpuNodes();
};
} // namespace

TEST(JobsModelTimes, takesTheBestLocalBatchThatFits) {
  Model model;
  jobs::Job job = gpuJob("a");
  job.batch = 100;
  ASSERT_FALSE(bool(setTimes(job, model.graph, model.cluster, model.costs)));
  // 16 GB hold parameters, gradients and 8 samples, not 16: (2·10 + 8·3) ms / 8.
  ASSERT_EQ(job.sampleTimes.size(), 1u);
  EXPECT_NEAR(job.sampleTimes.at("gpu").value(), 0.0055, 1e-12);
  EXPECT_EQ(job.gradient, Bytes(1e9));
  job.batch = 2; // no more samples than the job has
  job.worker[jobs::Gpu] = 2;
  ASSERT_FALSE(bool(setTimes(job, model.graph, model.cluster, model.costs)));
  EXPECT_NEAR(job.sampleTimes.at("gpu").value(), 0.013 / 2, 1e-12);
}

TEST(JobsModelTimes, workersOfCoresTakeTheirPartOfTheCpu) {
  Model model;
  jobs::Job job = gpuJob("a");
  job.worker = {2000, 16e9, 0}; // of 8 cores
  ASSERT_FALSE(bool(setTimes(job, model.graph, model.cluster, model.costs)));
  ASSERT_EQ(job.sampleTimes.size(), 1u);
  EXPECT_NEAR(job.sampleTimes.at("cpu").value(), 0.0055 * 4, 1e-12);
  // The worker's memory counts, not the CPU's; its part of that where it states none. One sample
  // fits: (2·10 + 3) ms.
  for (double memory : {3.5e9, 0.0}) {
    job.worker = {memory > 0 ? 2000.0 : 1750.0, memory, 0};
    job.sampleTimes.clear();
    ASSERT_FALSE(bool(setTimes(job, model.graph, model.cluster, model.costs)));
    EXPECT_NEAR(job.sampleTimes.at("cpu").value(), 0.023 * 8000 / job.worker[jobs::Cpu], 1e-12);
  }
}

TEST(JobsModelTimes, aModelThatFitsNowhereIsAnError) {
  Model model;
  model.graph.layers[0].parameterBytes = Bytes(1e12);
  jobs::Job job = gpuJob("a");
  job.modelLocation = {"jobs.yaml", 9, 12, ""};
  std::string error = toText(setTimes(job, model.graph, model.cluster, model.costs));
  EXPECT_EQ(error.find("jobs.yaml:9:12: error: [HP1216]"), 0u) << error;
}

TEST(JobsModelTimes, unknownTimesAreAnError) {
  Model model;
  ConstantCostModel none;
  jobs::Job job = gpuJob("a");
  std::string error = toText(setTimes(job, model.graph, model.cluster, none));
  EXPECT_NE(error.find("[HP1401]"), std::string::npos) << error;
}

TEST(JobsModelTimes, choicesOfWorkersAreInTheOrderOfTheirGpuTime) {
  Model model;
  jobs::Job job = gpuJob("a");
  job.batch = 100;
  for (int gpus : {4, 1, 2, 8}) {
    jobs::WorkerChoice &choice = job.choices.emplace_back();
    choice.worker = {0, 0, double(gpus)};
    if (gpus == 2) // twice as fast for each GPU as one alone, by its plan
      choice.plans = {{{"gpu", {"1f1b", 2, Seconds(100 * 0.0055 / 4)}}}};
    if (gpus == 8)
      choice.plans.emplace(); // no type has so many
  }
  ASSERT_FALSE(bool(setTimes(job, model.graph, model.cluster, model.costs)));
  ASSERT_EQ(job.choices.size(), 3u);
  EXPECT_EQ(job.choices[0].worker[jobs::Gpu], 2);
  EXPECT_EQ(job.choices[1].worker[jobs::Gpu], 4); // as good as one; earlier in the file
  EXPECT_EQ(job.choices[2].worker[jobs::Gpu], 1);
  EXPECT_EQ(job.worker[jobs::Gpu], 2);
  EXPECT_NEAR(job.sampleTimes.at("gpu").value(), 0.0055 / 4, 1e-12);
  EXPECT_TRUE(job.plans);
  job.choose(2);
  EXPECT_FALSE(job.plans);
  EXPECT_NEAR(job.sampleTimes.at("gpu").value(), 0.0055, 1e-12);
}
