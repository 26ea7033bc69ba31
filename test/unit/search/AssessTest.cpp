// Placements of somebody else, beside the best one.
#include "search/Assess.h"

#include "cost/ConstantCostModel.h"
#include "support/TwoLayers.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Knows no time of fewer than `least` samples.
struct OnlyLargeBatches : CostModel {
  ConstantCostModel times{{Seconds(1), Seconds(2), Seconds(0), Seconds(1)}};
  int64_t least = 1;

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override {
    if (batch < Samples(least))
      return Diagnostic(Diag::NoProfile, Location{})
             << "no time of " << batch.value() << " samples";
    return times.price(layer, device, batch);
  }
};

llvm::Expected<Assessment> assessed(const CostModel &costs, int layers, int64_t batch, int cut) {
  LayerGraph graph = test::twoLayers(Bytes(200), Bytes(100));
  for (int i = 2; i < layers; ++i) {
    Layer layer = graph.layers.back();
    layer.name = layer.signature = "l" + std::to_string(i);
    graph.layers.push_back(layer);
    LayerTensor tensor = graph.tensors.back();
    tensor.name += std::to_string(i);
    tensor.producer = i - 1;
    tensor.consumers = {i};
    graph.tensors.push_back(tensor);
  }
  Request request;
  request.globalBatch = Samples(batch);
  Cluster cluster = test::boxes(cut > 0 ? 2 : 1, Seconds(0.001));
  Problem problem = llvm::cantFail(Problem::create(graph, cluster, costs, request));
  DeviceGroup one{{{0, 1}}};
  Placement placement{{{0, layers, one}}, 1};
  if (cut > 0)
    placement.stages = {{0, cut, one}, {cut, layers, one}};
  return assess(problem, placement, "greedy", {});
}
} // namespace

TEST(Assess, AFailureOfTheCostModelIsNotLost) {
  // One device and 512 samples: the search tries up to 256 micro-batches, changes try 512.
  OnlyLargeBatches costs;
  auto known = assessed(costs, 2, 512, 0);
  ASSERT_TRUE(bool(known)) << toText(known.takeError());
  costs.least = 2;
  auto unknown = assessed(costs, 2, 512, 0);
  ASSERT_FALSE(bool(unknown));
  EXPECT_NE(toText(unknown.takeError()).find("no time of 1 samples"), std::string::npos);
}

TEST(Assess, StagesMayBeCutWhereNoSearchCuts) {
  OnlyLargeBatches costs;
  constexpr int layers = 100;
  for (int cut = 1; cut < layers; ++cut) {
    auto assessment = assessed(costs, layers, 4, cut);
    ASSERT_TRUE(bool(assessment)) << cut << toText(assessment.takeError());
    ASSERT_EQ(assessment->plan.stages.size(), 2u);
    EXPECT_EQ(int(assessment->plan.stages[0].layers.size()), cut);
  }
}
