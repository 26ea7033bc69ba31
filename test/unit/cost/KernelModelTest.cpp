#include "cost/KernelModel.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// 10 TFLOP/s in fp32, 80 in bf16, 1 TB/s, all of it sustained.
DeviceType gpu() {
  DeviceType type;
  type.name = "gpu";
  PeakRates &rates = type.rates.emplace();
  rates.fp32 = FlopsPerSecond(10e12);
  rates.bf16 = FlopsPerSecond(80e12);
  rates.memory = BytesPerSecond(1e12);
  rates.sustained = {rates.fp32, {}, rates.bf16, rates.memory};
  return type;
}

/// A product of [rows, depth] with [depth, columns].
Layer product(double rows, double columns, double depth) {
  Layer layer;
  layer.name = layer.signature = "l";
  layer.kind = LayerKind::MatMul;
  KernelWork kernel;
  kernel.kind = layer.kind;
  kernel.forwardFlops = Flops(2 * rows * columns * depth);
  kernel.backwardFlops = kernel.forwardFlops * 2;
  kernel.forwardBytes = Bytes(4 * rows * (columns + depth));
  kernel.backwardBytes = kernel.forwardBytes * 2;
  kernel.autocastForward = kernel.forwardBytes / 2;
  kernel.autocastBackward = kernel.backwardBytes / 2;
  kernel.product = {rows, columns, depth, 1};
  layer.kernels = {kernel};
  return layer;
}

double forward(const Layer &layer, int64_t samples, KernelSetting setting = {}) {
  return kernelTimes(layer, gpu(), Samples(samples), setting).forward.value();
}

TEST(KernelModel, LargeProductsComeCloseToTheSustainedRate) {
  double ideal = 2 * 64. * 1024 * 4096 * 4096 / 10e12;
  double time = forward(product(1024, 4096, 4096), 64);
  EXPECT_GT(time, ideal);
  EXPECT_LT(time, 1.1 * ideal);
}

TEST(KernelModel, SmallKernelsAreNotScaledInProportion) {
  Layer layer = product(1, 64, 64);
  EXPECT_DOUBLE_EQ(forward(layer, 1), forward(layer, 2)); // the host takes longer
  EXPECT_LT(forward(layer, 64), 2 * forward(layer, 1));
}

TEST(KernelModel, TilesThatAreUsedInPartCostAllOfTheirTime) {
  double half = forward(product(1024, 65, 4096), 64), whole = forward(product(1024, 128, 4096), 64);
  EXPECT_NEAR(half, whole, 0.02 * whole);
}

TEST(KernelModel, SixteenBitsUseTheirUnits) {
  Layer layer = product(1024, 4096, 4096);
  double ratio = forward(layer, 64) / forward(layer, 64, {Precision::Bf16, {}});
  EXPECT_GT(ratio, 5);
  EXPECT_LT(ratio, 8.5);
  EXPECT_DOUBLE_EQ(forward(layer, 64, {Precision::Bf16, {}}),
                   forward(layer, 64, {Precision::Fp16, {}}));
}

TEST(KernelModel, ConvolutionsUseMatrixUnitsOnlyWhereTheseAreFaster) {
  DeviceType type = gpu();
  type.rates->tf32 = type.rates->sustained.tf32 = type.rates->fp32;
  auto time = [&](const Layer &layer, KernelSetting setting) {
    return kernelTimes(layer, type, Samples(64), setting).forward.value();
  };
  Layer convolution = product(1024, 512, 4608);
  convolution.kind = convolution.kernels[0].kind = LayerKind::Convolution;
  EXPECT_DOUBLE_EQ(time(convolution, {Precision::Tf32, {}}), time(convolution, {})) << "no faster";
  type.rates->tf32 = type.rates->sustained.tf32 = type.rates->fp32 * 8;
  EXPECT_LT(time(convolution, {Precision::Tf32, {}}), time(convolution, {}) / 2);

  Layer moving = product(1024, 64, 64);
  moving.kind = moving.kernels[0].kind = LayerKind::Convolution;
  const KernelSetting first{Precision::Bf16, MemoryFormat::ChannelsFirst},
      last{Precision::Bf16, MemoryFormat::ChannelsLast};
  EXPECT_NEAR(time(moving, first), time(moving, last), 0.1 * time(moving, last))
      << "limited by its bytes: nothing is transposed";
  EXPECT_GT(time(convolution, first), 1.1 * time(convolution, last)) << "limited by its work";
}

TEST(KernelModel, TransformedConvolutionsMultiplyLess) {
  Layer plain = product(1024, 512, 4608);
  plain.kind = plain.kernels[0].kind = LayerKind::Convolution;
  Layer transformed = plain;
  transformed.convolutionBytes = Bytes(1);
  const double saved = forward(plain, 64) / forward(transformed, 64);
  EXPECT_GT(saved, 1.1);
  EXPECT_LT(saved, 2.25);             // F(2x2, 3x3) multiplies 2.25 times less
  Layer wide = plain, narrow = plain; // 196 outputs lie in tiles of 4x4 that are 256 outputs wide
  wide.kernels[0].product.rows = 256;
  narrow.kernels[0].product.rows = 196;
  wide.convolutionBytes = narrow.convolutionBytes = Bytes(1);
  EXPECT_LT(forward(wide, 64), forward(narrow, 64)) << "for the same work";
  Layer line = transformed; // a filter of 1x7
  line.kernels[0].product.depth = plain.kernels[0].product.depth = 512 * 7;
  EXPECT_DOUBLE_EQ(forward(plain, 64), forward(line, 64));
  plain.kernels[0].product.depth = 4608;
  EXPECT_DOUBLE_EQ(forward(plain, 64, {Precision::Bf16, {}}),
                   forward(transformed, 64, {Precision::Bf16, {}}));
  plain.kernels[0].product.groups = transformed.kernels[0].product.groups = 2;
  EXPECT_DOUBLE_EQ(forward(plain, 64), forward(transformed, 64));
}

/// A depthwise convolution of 384 channels of 14x14 with a filter of `size` by `size`.
Layer depthwise(double size) {
  Layer layer = product(196, 1, size * size);
  layer.kind = layer.kernels[0].kind = LayerKind::DepthwiseConvolution;
  KernelWork &kernel = layer.kernels[0];
  kernel.product.groups = 384;
  kernel.forwardFlops = kernel.forwardFlops * 384;
  kernel.forwardBytes = Bytes(2 * 4 * 196 * 384);
  kernel.autocastForward = kernel.forwardBytes / 2;
  return layer;
}

constexpr KernelSetting halfFirst{Precision::Bf16, MemoryFormat::ChannelsFirst};
constexpr KernelSetting halfLast{Precision::Bf16, MemoryFormat::ChannelsLast};

TEST(KernelModel, LargeDepthwiseFiltersAreLimitedByTheirWork) {
  const double three = forward(depthwise(3), 256), seven = forward(depthwise(7), 256);
  EXPECT_GT(seven, 3 * three);
  EXPECT_LT(seven, 49. / 9 * three);
  EXPECT_LT(forward(depthwise(7), 256, halfLast), forward(depthwise(7), 256, halfFirst));
}

TEST(KernelModel, ImagesThatLieChannelsLastIgnoreTheFormatOfThePlan) {
  Layer layer = depthwise(7), convolution = product(3136, 64, 576);
  convolution.kind = convolution.kernels[0].kind = LayerKind::Convolution;
  for (Layer *each : {&layer, &convolution}) {
    const double last = forward(*each, 64, halfLast);
    EXPECT_LT(last, forward(*each, 64, halfFirst));
    each->kernels[0].channelsLast = true;
    EXPECT_DOUBLE_EQ(forward(*each, 64, halfFirst), last);
  }
}

TEST(KernelModel, SmallGroupsHaveNarrowTiles) {
  auto grouped = [](double width) {
    Layer layer = product(3136, width, 9 * width);
    layer.kind = layer.kernels[0].kind = LayerKind::Convolution;
    layer.kernels[0].product.groups = 32;
    layer.kernels[0].forwardBytes = layer.kernels[0].backwardBytes = Bytes(1);
    return forward(layer, 4096) / layer.kernels[0].forwardFlops.value();
  };
  EXPECT_GT(grouped(4), 1.9 * grouped(8)) << "half of a tile is not used";
  EXPECT_LT(grouped(8), 2 * grouped(32));
}

TEST(KernelModel, MovesTakeAsLongAsAdditions) {
  Layer layer = product(1, 64, 64);
  layer.kernels[0] = {};
  layer.kernels[0].kind = LayerKind::Elementwise;
  layer.kernels[0].forwardBytes = Bytes(1e8);
  const double addition = forward(layer, 64);
  layer.kernels[0].kind = LayerKind::DataMovement;
  EXPECT_DOUBLE_EQ(forward(layer, 64), addition);
}

TEST(KernelModel, KernelsOfALayerAddUp) {
  Layer layer = product(1024, 4096, 4096);
  double alone = forward(layer, 64);
  KernelWork chain;
  chain.kind = LayerKind::Elementwise;
  chain.count = 3;
  chain.forwardBytes = Bytes(1e8);
  layer.kernels.push_back(chain);
  EXPECT_GE(forward(layer, 64), alone + 64 * 1e8 / 1e12);
}

TEST(KernelModel, ArchitecturesStateWhatTheySustain) {
  DeviceType type = gpu();
  type.rates->sustained = {};
  type.architecture = "volta";
  EXPECT_LT(kernelRates(type, Precision::Fp32).products.value(), 10e12);
  EXPECT_FALSE(kernelRates(type, Precision::Tf32).hasUnits);
  EXPECT_TRUE(kernelRates(type, Precision::Bf16).hasUnits);
  auto width = [](const DeviceType &of, Precision precision) {
    return kernelHalfWidth(LayerKind::MatMul, of, precision);
  };
  EXPECT_LT(width(type, Precision::Bf16), width(gpu(), Precision::Bf16));
  EXPECT_LT(width(type, Precision::Bf16), width(type, Precision::Tf32)) << "which nobody measured";
  type.rates->sustained.tf32 = FlopsPerSecond(1e12);
  EXPECT_DOUBLE_EQ(width(type, Precision::Bf16), width(type, Precision::Tf32)) << "stated";
}

TEST(KernelModel, ConvolutionsChooseTheirFormat) {
  Layer layer = product(3136, 64, 576);
  layer.kind = layer.kernels[0].kind = LayerKind::Convolution;
  LayerGraph graph;
  graph.layers = {layer};
  Cluster cluster;
  cluster.types = {gpu()};
  NodeGroup node;
  node.devices["gpu"] = 1;
  cluster.nodes = {node};
  EXPECT_EQ(fasterFormat(graph, cluster, Precision::Bf16, Samples(64)), MemoryFormat::ChannelsLast);
  EXPECT_EQ(fasterFormat(graph, cluster, Precision::Fp32, Samples(64)),
            MemoryFormat::ChannelsFirst);
}
} // namespace
