#include "cost/BoundaryCost.h"

#include "cost/StageMemory.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Two layers; the first one sends a tensor of 30 bytes a sample and one of 40 bytes a micro-batch.
LayerGraph twoTensors(bool differentiable) {
  LayerGraph graph;
  graph.layers.resize(2);
  for (size_t i = 0; i < 2; ++i)
    graph.layers[i].name = "layer" + std::to_string(i);
  LayerTensor samples, fixed;
  samples.name = "samples";
  samples.consumers = fixed.consumers = {1};
  samples.bytesPerSample = Bytes(30);
  fixed.name = "fixed";
  fixed.fixedBytes = Bytes(40);
  fixed.differentiable = differentiable;
  graph.tensors = {samples, fixed};
  return graph;
}

/// 10 B/s and 2 s; two senders and three receivers share an interface.
const TransferPath path{{"", BytesPerSecond(10), Seconds(2), ""}, 2, 3};
} // namespace

TEST(BoundaryCost, CountsGradientsOfTensorsWithoutABatchDimension) {
  const BoundaryCost cost = boundaryCost(path, Samples(6), Samples(4), twoTensors(true).cuts()[1]);
  EXPECT_DOUBLE_EQ(cost.receive.value(), 2 + (3 * 4 * 30 + 3 * 40) / 10.0);
  EXPECT_DOUBLE_EQ(cost.receiveGradient.value(), 2 + (3 * 4 * 30 + 2 * 40) / 10.0);
}

TEST(BoundaryCost, CountsNoGradientOfWhatHasNone) {
  const BoundaryCost cost = boundaryCost(path, Samples(6), Samples(4), twoTensors(false).cuts()[1]);
  EXPECT_DOUBLE_EQ(cost.receiveGradient.value(), 2 + (3 * 4 * 30) / 10.0);
}

TEST(BoundaryCost, MemoryHoldsBothEndsOfAFixedGradient) {
  for (LayerRange stage : {LayerRange{0, 1}, LayerRange{1, 2}}) {
    auto fixedBytes = [&](bool differentiable) {
      const LayerGraph graph = twoTensors(differentiable);
      const std::vector<Cut> cuts = graph.cuts();
      return StageMemory(graph, cuts, Optimizer::Sgd, Samples(8))
          .of(stage, 1, {}, StageSharding())
          .fixed;
    };
    EXPECT_EQ(fixedBytes(true) - fixedBytes(false), Bytes(40));
  }
}
