#include "cost/ForLoopUpdates.h"
#include "cost/Roofline.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// 1 TB/s, all of which additions reach.
DeviceType gpu() {
  DeviceType type;
  type.name = "gpu";
  type.rates = PeakRates{FlopsPerSecond(10e12), FlopsPerSecond(), FlopsPerSecond(),
                         BytesPerSecond(1e12), "test"};
  type.rates->sustained.memory = BytesPerSecond(1e12);
  return type;
}

Layer layerOf(std::vector<std::string> parameters, Bytes bytes) {
  Layer layer;
  layer.name = layer.signature = "l";
  layer.kind = LayerKind::MatMul;
  layer.forwardFlops = Flops(1e9);
  layer.backwardFlops = Flops(2e9);
  layer.forwardBytes = layer.backwardBytes = Bytes(1e6);
  layer.parameters = std::move(parameters);
  layer.parameterBytes = bytes;
  return layer;
}

LayerCost fused(const Layer &layer, const DeviceType &type, Optimizer optimizer) {
  return cantFail(RooflineModel(optimizer, Precision::Fp32).price(layer, type, Samples(8)));
}

LayerCost inForLoop(const Layer &layer, const DeviceType &type, Optimizer optimizer) {
  RooflineModel model(optimizer, Precision::Fp32);
  return cantFail(ForLoopUpdates(model, optimizer).price(layer, type, Samples(8)));
}

constexpr double host = 45e-6, least = 7.95e-6; // of a kernel: KernelParameters.def

TEST(ForLoopUpdates, TakeAsLongAsTheHostEnqueuesTheKernelsOfSmallParameters) {
  const Layer layer = layerOf({"w", "b"}, Bytes(4e3));
  EXPECT_DOUBLE_EQ(inForLoop(layer, gpu(), Optimizer::Sgd).update.value(), 2 * host);
  EXPECT_DOUBLE_EQ(inForLoop(layer, gpu(), Optimizer::Momentum).update.value(), 2 * 3 * host);
  EXPECT_DOUBLE_EQ(inForLoop(layer, gpu(), Optimizer::Adam).update.value(), 2 * 7 * host);
}

TEST(ForLoopUpdates, MoveLargeParametersOnceForEachTensorOfAKernel) {
  const Layer layer = layerOf({"w"}, Bytes(1e9));
  EXPECT_NEAR(inForLoop(layer, gpu(), Optimizer::Sgd).update.value(), 3e-3 + least, 1e-12);
  EXPECT_NEAR(inForLoop(layer, gpu(), Optimizer::Momentum).update.value(), 8e-3 + 3 * least, 1e-12);
  EXPECT_NEAR(inForLoop(layer, gpu(), Optimizer::Adam).update.value(), 18e-3 + 7 * least, 1e-12);
}

TEST(ForLoopUpdates, LeaveAllElseAsItIs) {
  const Layer layer = layerOf({"w"}, Bytes(4e6));
  const LayerCost before = fused(layer, gpu(), Optimizer::Adam);
  const LayerCost after = inForLoop(layer, gpu(), Optimizer::Adam);
  EXPECT_EQ(after.forward, before.forward);
  EXPECT_EQ(after.backward, before.backward);
  EXPECT_EQ(after.accumulate, before.accumulate);
  EXPECT_GT(after.update, before.update);
}

TEST(ForLoopUpdates, ConcernGpusAndParametersOnly) {
  DeviceType cpu = gpu();
  cpu.deviceClass = DeviceClass::Cpu;
  const Layer layer = layerOf({"w"}, Bytes(4e6)), none = layerOf({}, Bytes(0));
  EXPECT_EQ(inForLoop(layer, cpu, Optimizer::Adam).update,
            fused(layer, cpu, Optimizer::Adam).update);
  EXPECT_EQ(inForLoop(none, gpu(), Optimizer::Adam).update, Seconds(0));
}
} // namespace
