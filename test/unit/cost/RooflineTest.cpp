#include "cost/Roofline.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
constexpr double cpuOverhead = 20e-6;

/// 10 TFLOP/s in fp32, 40 in tf32, 80 in bf16, 1 TB/s.
DeviceType gpu() {
  DeviceType type;
  type.name = "gpu";
  type.rates = PeakRates{FlopsPerSecond(10e12), FlopsPerSecond(40e12), FlopsPerSecond(80e12),
                         BytesPerSecond(1e12), "test"};
  return type;
}

/// With the same rates.
DeviceType cpu() {
  DeviceType type = gpu();
  type.deviceClass = DeviceClass::Cpu;
  return type;
}

Layer heavy(LayerKind kind) {
  Layer layer;
  layer.name = layer.signature = "l";
  layer.kind = kind;
  layer.forwardFlops = Flops(1e9);
  layer.backwardFlops = Flops(2e9);
  layer.forwardBytes = Bytes(1e6);
  layer.backwardBytes = Bytes(2e6);
  layer.parameterBytes = Bytes(4e6);
  return layer;
}

LayerCost cost(const Layer &layer, const DeviceType &type, int64_t batch,
               Precision precision = Precision::Fp32, Optimizer optimizer = Optimizer::Sgd) {
  auto result = RooflineModel(optimizer, precision).price(layer, type, Samples(batch));
  EXPECT_TRUE(bool(result)) << toText(result.takeError());
  return *result;
}

TEST(Roofline, ComputeLimits) {
  LayerCost matmul = cost(heavy(LayerKind::MatMul), cpu(), 10);
  EXPECT_DOUBLE_EQ(matmul.forward.value(), cpuOverhead + 10 * 1e9 / (10e12 * 0.55));
  EXPECT_DOUBLE_EQ(matmul.backward.value(), cpuOverhead + 10 * 2e9 / (10e12 * 0.55));
  EXPECT_EQ(matmul.provenance, Provenance::Modelled);
}

TEST(Roofline, MemoryLimitsAndParametersAreReadOnceAPass) {
  Layer layer = heavy(LayerKind::Elementwise);
  layer.forwardFlops = layer.backwardFlops = Flops(0);
  LayerCost light = cost(layer, cpu(), 10);
  EXPECT_DOUBLE_EQ(light.forward.value(), cpuOverhead + (10 * 1e6 + 4e6) / (1e12 * 0.55));
  EXPECT_DOUBLE_EQ(light.backward.value(), cpuOverhead + (10 * 2e6 + 8e6) / (1e12 * 0.55));
}

TEST(Roofline, AnEmbeddingReadsOnlyItsRows) {
  Layer layer = heavy(LayerKind::Embedding);
  layer.forwardFlops = layer.backwardFlops = Flops(0);
  layer.parameterBytes = Bytes(1e9);
  LayerCost embedding = cost(layer, cpu(), 10);
  EXPECT_DOUBLE_EQ(embedding.forward.value(), cpuOverhead + 10 * 1e6 / (1e12 * 0.3));
  EXPECT_DOUBLE_EQ(embedding.backward.value(), cpuOverhead + (10 * 2e6 + 1e9) / (1e12 * 0.3));
  LayerCost onGpu = cost(layer, gpu(), 10);
  EXPECT_LT(onGpu.forward, Seconds(1e-3)) << "not the table";
  EXPECT_GT(onGpu.backward, Seconds(1e9 / 1e12)) << "its dense gradient is filled";
}

TEST(Roofline, ASparseTableMovesItsRowsOnly) {
  Layer layer = heavy(LayerKind::Embedding);
  layer.forwardFlops = layer.backwardFlops = Flops(0);
  layer.parameterBytes = Bytes(4e9);
  layer.tables = {{"t", 10'000'000, 100, DataType::Float32, 50}}; // all of them
  LayerCost sparse = cost(layer, cpu(), 10);
  EXPECT_DOUBLE_EQ(sparse.forward.value(), cpuOverhead + 10 * 1e6 / (1e12 * 0.3));
  // updated where they were looked up: SGD moves 3 times 50 rows of 400 bytes a sample
  EXPECT_DOUBLE_EQ(sparse.backward.value(), cpuOverhead + 10 * (2e6 + 3 * 50 * 400) / (1e12 * 0.3));
  EXPECT_EQ(sparse.update, Seconds(0));
  EXPECT_LT(cost(layer, gpu(), 10).backward, Seconds(1e-3));
  EXPECT_EQ(cost(layer, gpu(), 10).update, Seconds(0));
}

TEST(Roofline, PrecisionChoosesThePeak) {
  auto forward = [](LayerKind kind, const DeviceType &type, Precision precision) {
    return cost(heavy(kind), type, 100, precision).forward.value();
  };
  EXPECT_NEAR(forward(LayerKind::MatMul, cpu(), Precision::Bf16) - cpuOverhead,
              1e11 / (80e12 * 0.30) + 1.5 * 4e6 / (1e12 * 0.55), 1e-12)
      << "and weights are rounded";
  EXPECT_LT(forward(LayerKind::MatMul, gpu(), Precision::Tf32),
            forward(LayerKind::MatMul, gpu(), Precision::Fp32));
  EXPECT_LT(forward(LayerKind::MatMul, gpu(), Precision::Bf16),
            forward(LayerKind::MatMul, gpu(), Precision::Tf32));
  // Softmax has no use for tensor cores.
  EXPECT_EQ(forward(LayerKind::Softmax, gpu(), Precision::Tf32),
            forward(LayerKind::Softmax, gpu(), Precision::Fp32));
  for (DeviceType old : {cpu(), gpu()}) {
    old.rates->tf32 = old.rates->bf16 = FlopsPerSecond(0);
    for (Precision precision : {Precision::Tf32, Precision::Bf16})
      EXPECT_EQ(cost(heavy(LayerKind::MatMul), old, 70, precision).forward,
                cost(heavy(LayerKind::MatMul), old, 70, Precision::Fp32).forward);
  }
}

TEST(Roofline, Bf16HalvesTheBytes) {
  Layer layer = heavy(LayerKind::Elementwise);
  layer.forwardFlops = Flops(0);
  double full = cost(layer, cpu(), 10, Precision::Fp32).forward.value() - cpuOverhead;
  double half = cost(layer, cpu(), 10, Precision::Bf16).forward.value() - cpuOverhead;
  EXPECT_NEAR(half, full / 2, 1e-12);
  layer.kind = LayerKind::Embedding;
  EXPECT_EQ(cost(layer, cpu(), 10, Precision::Bf16).backward,
            cost(layer, cpu(), 10, Precision::Fp32).backward)
      << "autocast does not look up in bf16";
}

TEST(Roofline, UpdateIsTheTrafficOfTheOptimizer) {
  const double rate = 1e12 * 0.55;
  Layer layer = heavy(LayerKind::MatMul);
  auto update = [&](Optimizer optimizer) {
    return cost(layer, cpu(), 1, Precision::Fp32, optimizer).update.value();
  };
  EXPECT_DOUBLE_EQ(update(Optimizer::Sgd), cpuOverhead + 3 * 4e6 / rate);
  EXPECT_DOUBLE_EQ(update(Optimizer::Momentum), cpuOverhead + 5 * 4e6 / rate);
  EXPECT_DOUBLE_EQ(update(Optimizer::Adam), cpuOverhead + 7 * 4e6 / rate);
  layer.parameterBytes = Bytes(0);
  EXPECT_EQ(update(Optimizer::Adam), 0);
}

/// The runtime: 6 bytes of each weight round it, once a step; its gradient takes 6 more in each
/// backward pass and 12 to be added (test/runtime/test_precision.py).
TEST(Roofline, OneMoreMicroBatchFindsRoundedWeights) {
  Layer layer = heavy(LayerKind::MatMul);
  KernelWork kernel;
  kernel.kind = layer.kind;
  kernel.product = {1, 1000, 1000, 1};
  layer.kernels = {kernel};
  for (const DeviceType &type : {cpu(), gpu()}) {
    auto accumulate = [&](Precision precision) {
      const double overhead = type.deviceClass == DeviceClass::Cpu ? cpuOverhead : 0;
      return cost(layer, type, 1, precision).accumulate.value() - overhead;
    };
    EXPECT_NEAR(accumulate(Precision::Bf16), accumulate(Precision::Fp32) * (12 - 6) / 12, 1e-12);
    EXPECT_EQ(accumulate(Precision::Tf32), accumulate(Precision::Fp32)) << "rounds nothing";
  }
  layer.kernels[0].kind = LayerKind::BatchedMatMul; // of activations alone
  EXPECT_EQ(cost(layer, gpu(), 1, Precision::Bf16).accumulate,
            cost(layer, gpu(), 1, Precision::Fp32).accumulate);
}

TEST(Roofline, NeverFallsWithTheBatchOnAnyKindOrDevice) {
  constexpr LayerKind kinds[] = {
#define HETERPLAN_LAYER_KIND(enumerator, name, help) LayerKind::enumerator,
#include "ir/Layers.def"
  };
  for (DeviceClass deviceClass : {DeviceClass::Cpu, DeviceClass::Gpu})
    for (LayerKind kind : kinds) {
      DeviceType type = gpu();
      type.deviceClass = deviceClass;
      LayerCost before = cost(heavy(kind), type, 1);
      EXPECT_GT(before.forward.value(), 0);
      for (int64_t batch = 2; batch < 600; batch += batch / 3 + 1) {
        LayerCost now = cost(heavy(kind), type, batch);
        EXPECT_GE(now.forward, before.forward);
        EXPECT_GE(now.backward, before.backward);
        before = now;
      }
    }
}

TEST(Roofline, WorklessLayersCostTheOverhead) {
  Layer layer;
  layer.name = layer.signature = "reshape";
  layer.kind = LayerKind::DataMovement;
  EXPECT_DOUBLE_EQ(cost(layer, cpu(), 8).forward.value(), cpuOverhead);
  EXPECT_EQ(cost(layer, cpu(), 8).update.value(), 0);
  EXPECT_LT(cost(layer, gpu(), 8).forward.value(), 1e-4);
}

TEST(Roofline, SaysWhenItCannotSay) {
  RooflineModel model(Optimizer::Sgd, Precision::Fp32);
  DeviceType bare = gpu();
  bare.rates.reset();
  auto noRates = model.price(heavy(LayerKind::MatMul), bare, Samples(1));
  ASSERT_FALSE(bool(noRates));
  std::string problem = toText(noRates.takeError());
  EXPECT_NE(problem.find("[HP1401]"), std::string::npos);
  EXPECT_NE(problem.find("catalogue"), std::string::npos);
  Layer opaque;
  opaque.name = opaque.signature = "black-box";
  auto noWork = model.price(opaque, gpu(), Samples(1));
  ASSERT_FALSE(bool(noWork));
  EXPECT_NE(toText(noWork.takeError()).find("black-box"), std::string::npos);
  opaque.forwardBytes = Bytes(1);
  EXPECT_GT(cost(opaque, gpu(), 1).forward.value(), 0);
}
} // namespace
