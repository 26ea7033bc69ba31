// Times of the kernels of a layer on a GPU that nobody measured: each has a floor, and work at a
// rate that its shape sustains. The parameters are fitted on public measurements
// (bench/published_fit.py, docs/experiments/published.md).
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

namespace heterplan {

/// The rates that the best kernels of `device` sustain at `precision`, by its own figures, else by
/// the shares of its architecture; the rate of fp32 where it has no faster units.
struct KernelRates {
  FlopsPerSecond products;
  FlopsPerSecond fp32; // of products, without the units of the precision
  BytesPerSecond memory;
  bool hasUnits = false;      // of the precision
  double convolutionHalf = 1; // what convolutions in 16 bits reach of what they reach elsewhere
};
KernelRates kernelRates(const DeviceType &device, Precision precision);

/// How a layer is computed.
struct KernelSetting {
  Precision precision = Precision::Fp32;
  MemoryFormat format = MemoryFormat::ChannelsFirst;
};

struct PassTimes {
  Seconds forward{}, backward{};
};

/// Times of the passes of `layer` over `samples`, from those of its kernels:
///   max(work / (rate · share of the kind · tiles used · depth / (depth + half depth)),
///       bytes / (bandwidth · share of the kind)) + floor,
/// and at least what the host takes to enqueue them. A backward pass of a product has one product
/// for the gradient of each operand.
PassTimes kernelTimes(const Layer &layer, const DeviceType &device, Samples samples,
                      const KernelSetting &setting);

/// The size in fp32 of the weights of products, which autocast rounds to 16 bits: once a step, in
/// the forward pass of its first micro-batch.
Bytes roundedWeights(const Layer &layer);

/// The format in which the layers of `graph` take less time on the GPUs of `cluster`, at an equal
/// share of `batch` each; channels first where it makes no difference.
MemoryFormat fasterFormat(const LayerGraph &graph, const Cluster &cluster, Precision precision,
                          Samples batch);

/// The half-width of the 90 % interval of a layer's modelled times, of the natural logarithm; wider
/// where no measured step told the rate of the precision on the architecture of the device.
double kernelHalfWidth(LayerKind kind, const DeviceType &device, Precision precision);

/// Share of the bandwidth that elementwise kernels of a GPU reach.
double elementwiseShare();

/// Time of `count` elementwise kernels, one after another, that move `moved` together: at least
/// what the host takes to enqueue them.
Seconds elementwiseTime(const DeviceType &device, Bytes moved, double count);

} // namespace heterplan
