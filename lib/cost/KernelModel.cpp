#include "cost/KernelModel.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
namespace fitted {
#define HETERPLAN_KERNEL_PARAMETER(name, value, help) constexpr double name = value;
#include "cost/KernelParameters.def"
} // namespace fitted

struct Shares {
  const char *name;
  double fp32, tf32, half, bandwidth, convolution;
};

constexpr Shares architectures[] = {
#define HETERPLAN_ARCHITECTURE(name, fp32, tf32, half, bandwidth, convolution)                     \
  {name, fp32, tf32, half, bandwidth, convolution},
#include "cost/Architectures.def"
};

/// Whether products in `precision` on an architecture were fitted to measured steps.
bool isFitted(StringRef architecture, Precision precision) {
#define HETERPLAN_FITTED_RATES(name, fp32, tf32, half)                                             \
  if (architecture == name)                                                                        \
    return heterplan::isHalf(precision) ? half : precision == Precision::Tf32 ? tf32 : fp32;
#include "cost/Architectures.def"
  return false;
}

/// Whether a measurement tells the rate of products: the fit, or one that the device type states
/// for an architecture that the kernels are known for.
bool isTold(const DeviceType &device, Precision precision) {
  const SustainedRates &stated = device.rates->sustained;
  const FlopsPerSecond own = heterplan::isHalf(precision)   ? stated.half
                             : precision == Precision::Tf32 ? stated.tf32
                                                            : stated.fp32;
  return isFitted(device.architecture, precision) ||
         (!device.architecture.empty() && own.value() > 0);
}

const Shares &sharesOf(StringRef architecture) {
  for (const Shares &shares : architectures)
    if (architecture == shares.name)
      return shares;
  return architectures[0];
}

bool isConvolution(const KernelWork &kernel) { return kernel.kind == LayerKind::Convolution; }

/// The used part of the tiles that cover `size` rows or columns.
double tiled(double size) {
  double tile = size > 64 ? 128 : size > 32 ? 64 : 32;
  return size / (std::ceil(size / tile) * tile);
}

/// The used part of the tiles over the columns of `kernel`. Small groups of channels have tiles of
/// the width of a matrix instruction.
double tiledColumns(const KernelWork &kernel) {
  constexpr double narrow = 8;
  const ProductShape &shape = kernel.product;
  if (!isConvolution(kernel) || shape.groups <= 1)
    return tiled(shape.columns);
  return shape.columns / (std::ceil(shape.columns / narrow) * narrow);
}

/// The weights of a product, in fp32; a batched one has none.
Bytes weightsOf(const KernelWork &kernel) {
  const ProductShape &shape = kernel.product;
  if (!shape || kernel.kind == LayerKind::BatchedMatMul)
    return Bytes();
  return Bytes(shape.columns * shape.depth * shape.groups * 4);
}

/// The units that compute products.
enum class Units { Fp32, Tf32, Half };

/// One pass of a kernel.
struct Pass {
  Flops work;
  Bytes moved;
  double products; // one after another
};

class Kernels {
public:
  /// `isTransformed`: the largest convolution of the layer has kernels that transform its operands.
  /// All convolutions of the layer are then taken for such ones.
  Kernels(const DeviceType &device, const KernelSetting &setting, bool isTransformed)
      : rates(kernelRates(device, setting.precision)), isHalf(heterplan::isHalf(setting.precision)),
        units(!rates.hasUnits ? Units::Fp32
              : isHalf        ? Units::Half
                              : Units::Tf32),
        format(setting.format), isTransformed(isTransformed) {}

  Seconds forward(const KernelWork &kernel, double samples) const {
    Bytes activations = isHalf ? kernel.autocastForward : kernel.forwardBytes;
    Pass pass = passOf(kernel, kernel.forwardFlops, activations, samples, 1);
    pass.products = 1;
    double rows = rowsOf(kernel, samples);
    if (!kernel.product)
      return timeOf(kernel, pass, shareWithoutShape(kernel.kind));
    return timeOf(kernel, pass, tiledColumns(kernel) * usedShare(rows, kernel.product.depth));
  }

  Seconds backward(const KernelWork &kernel, double samples) const {
    Bytes activations = isHalf ? kernel.autocastBackward : kernel.backwardBytes;
    Pass pass = passOf(kernel, kernel.backwardFlops, activations, samples, 2);
    pass.products = productsOfBackward(kernel);
    return timeOf(kernel, pass,
                  kernel.product ? backwardShare(kernel, samples, pass.products)
                                 : shareWithoutShape(kernel.kind));
  }

  /// Operators that the host enqueues beside those of the kernel: casts.
  double casts(const KernelWork &kernel) const {
    return isHalf && kernel.product ? fitted::autocastOperators * kernel.count : 0;
  }

  /// The same kernels on the units of fp32, which need no transposed copies of images.
  Kernels withoutMatrixUnits() const {
    Kernels plain = *this;
    plain.units = Units::Fp32;
    plain.rates.products = rates.fp32;
    return plain;
  }

  /// Whether a library may compute `kernel` without matrix units if that is faster. Autocast and
  /// tf32 permit matrix units; cuDNN chooses the kernel. In 16 bits, channels last, and for groups,
  /// no measured row shows such a choice.
  bool canBePlain(const KernelWork &kernel) const {
    return isConvolution(kernel) && units != Units::Fp32 && kernel.product.groups <= 1 &&
           (units == Units::Tf32 || isFirst(kernel));
  }

  static double productsOfBackward(const KernelWork &kernel) {
    return kernel.product && kernel.backwardFlops > kernel.forwardFlops * 1.5 ? 2 : 1;
  }

private:
  KernelRates rates;
  bool isHalf;
  Units units;
  MemoryFormat format;
  bool isTransformed;

  bool isFirst(const KernelWork &kernel) const {
    return format == MemoryFormat::ChannelsFirst && !kernel.channelsLast;
  }

  /// The share of the rate of products where nobody states their size; 0: such kernels only move
  /// bytes.
  static double shareWithoutShape(LayerKind kind) {
    switch (kind) {
    case LayerKind::Convolution:
    case LayerKind::MatMul:
    case LayerKind::BatchedMatMul:
      return 0.85;
    case LayerKind::Recurrent: // steps one after another
    case LayerKind::Opaque:
      return 0.4;
    default:
      return 0;
    }
  }

  static double rowsOf(const KernelWork &kernel, double samples) {
    return kernel.kind == LayerKind::BatchedMatMul ? kernel.product.rows
                                                   : kernel.product.rows * samples;
  }

  /// Weights are read, their gradients written. Under autocast a step moves 18 bytes of each
  /// weight: it reads 4 and writes 2 to round it, both passes read these 2, and the gradient is
  /// written in 16 bits (2), read (2) and written in fp32 (4).
  Pass passOf(const KernelWork &kernel, Flops work, Bytes activations, double samples,
              double weightTraffic) const {
    const Bytes weights = weightsOf(kernel);
    double traffic = isConvolution(kernel) && units != Units::Fp32 && isFirst(kernel)
                         ? 1 + fitted::transpositions
                         : 1;
    return {work * samples,
            activations * (samples * traffic) + weights * (weightTraffic * (isHalf ? 1.5 : 1)), 1};
  }

  double halfDepth() const {
    return units == Units::Half   ? fitted::depthHalf
           : units == Units::Tf32 ? fitted::depthTf32
                                  : fitted::depthFp32;
  }

  /// Less the share of the tiles over the columns.
  double usedShare(double rows, double depth) const {
    return tiled(rows) * depth / (depth + halfDepth());
  }

  /// The gradient of the data is a product over the columns, that of the weights over the rows.
  double backwardShare(const KernelWork &kernel, double samples, double products) const {
    const ProductShape &shape = kernel.product;
    double rows = rowsOf(kernel, samples);
    double ofWeights = tiledColumns(kernel) * usedShare(shape.depth, rows);
    if (kernel.kind != LayerKind::BatchedMatMul)
      ofWeights *= fitted::weightGradient;
    if (products < 2)
      return ofWeights;
    return 2 / (1 / (tiled(shape.depth) * usedShare(rows, shape.columns)) + 1 / ofWeights);
  }

  double rateShare(const KernelWork &kernel) const {
    if (kernel.kind == LayerKind::BatchedMatMul)
      return fitted::batched;
    if (!isConvolution(kernel))
      return 1;
    double share = units == Units::Half
                       ? (isFirst(kernel) ? fitted::convolutionFirst : fitted::convolutionHalf) *
                             rates.convolutionHalf
                   : units == Units::Tf32 ? fitted::convolutionTf32
                                          : fitted::convolutionFp32;
    if (kernel.product.groups <= 1)
      return share;
    bool isOdd =
        units == Units::Half && !isFirst(kernel) && std::fmod(std::log2(kernel.product.columns), 1);
    return share * fitted::grouped * (isOdd ? fitted::oddGroups : 1);
  }

  /// Depthwise convolutions do not use matrix units: each output takes as many additions as the
  /// filter has elements.
  FlopsPerSecond depthwiseRate(const KernelWork &kernel) const {
    const bool isFast = isHalf && !isFirst(kernel);
    return rates.fp32 * (isFast ? fitted::depthwiseRateLast : fitted::depthwiseRate);
  }

  double bandwidthShare(const KernelWork &kernel) const {
    if (kernel.kind == LayerKind::DepthwiseConvolution)
      return fitted::depthwise;
    if (kernel.product)
      return 1;
    switch (kernel.kind) {
    case LayerKind::Normalization:
      return fitted::normalization;
    case LayerKind::Softmax:
      return fitted::softmax;
    case LayerKind::Elementwise:
    case LayerKind::DataMovement:
      return fitted::elementwise;
    default:
      return fitted::others;
    }
  }

  /// Kernels of 3x3 that transform their operands need fewer multiplications: Winograd's F(4x4,
  /// 3x3) 36 for 16 outputs instead of 144. Such kernels write 36 values for a tile of 16, of
  /// images and of results, and read them again (Lavin and Gray, arXiv 1509.09308).
  Seconds workTime(const KernelWork &kernel, const Pass &pass, double used) const {
    const Seconds direct = pass.work / (rates.products * (rateShare(kernel) * used));
    const ProductShape &shape = kernel.product;
    const bool is3x3 = isConvolution(kernel) && shape && std::fmod(shape.depth, 9) == 0;
    if (!isTransformed || units != Units::Fp32 || !is3x3 || shape.groups > 1)
      return direct;
    const Seconds small = direct / fitted::transformed;
    const double side = std::sqrt(shape.rows), tiled = std::ceil(side / 4) * 4;
    const double saved = 144. / 36 * (side * side) / (tiled * tiled);
    const Seconds large =
        direct / (saved * fitted::tiles) + pass.moved * (2 * 36. / 16) / rates.memory;
    return std::min(small, large);
  }

  Seconds timeOf(const KernelWork &kernel, const Pass &pass, double used) const {
    if (pass.work == Flops() && pass.moved == Bytes())
      return Seconds();
    Seconds time = pass.moved / (rates.memory * bandwidthShare(kernel));
    if (kernel.kind == LayerKind::DepthwiseConvolution)
      time = std::max(time, pass.work / depthwiseRate(kernel));
    else if (used > 0)
      time = std::max(time, workTime(kernel, pass, used));
    return time + Seconds(fitted::floorMicroseconds * 1e-6 * kernel.count * pass.products);
  }
};

/// A layer whose file does not list its kernels is one of its kind, whose shape is not known.
std::vector<KernelWork> kernelsOf(const Layer &layer) {
  if (!layer.kernels.empty())
    return layer.kernels;
  KernelWork kernel;
  kernel.kind = layer.kind;
  kernel.forwardFlops = layer.forwardFlops;
  kernel.backwardFlops = layer.backwardFlops;
  kernel.forwardBytes = layer.forwardBytes;
  kernel.backwardBytes = layer.backwardBytes;
  kernel.autocastForward = layer.forwardBytes / 2;
  kernel.autocastBackward = layer.backwardBytes / 2;
  return {kernel};
}
} // namespace

KernelRates kernelRates(const DeviceType &device, Precision precision) {
  const PeakRates &rates = *device.rates;
  const Shares &shares = sharesOf(device.architecture);
  auto sustained = [](auto stated, auto peak, double share) {
    return stated.value() > 0 ? stated : peak * share;
  };
  const SustainedRates &stated = rates.sustained;
  const FlopsPerSecond fp32 = sustained(stated.fp32, rates.fp32, shares.fp32);
  KernelRates result{fp32, fp32, sustained(stated.memory, rates.memory, shares.bandwidth)};
  FlopsPerSecond faster;
  if (isHalf(precision))
    faster = sustained(stated.half, rates.half(), shares.half);
  if (precision == Precision::Tf32)
    faster = sustained(stated.tf32, rates.tf32, shares.tf32);
  result.hasUnits = faster.value() > 0;
  result.convolutionHalf = shares.convolution;
  result.products = std::max(result.products, faster);
  return result;
}

PassTimes kernelTimes(const Layer &layer, const DeviceType &device, Samples samples,
                      const KernelSetting &setting) {
  const Kernels kernels(device, setting, layer.convolutionBytes > Bytes());
  const Kernels plain = kernels.withoutMatrixUnits();
  const double count = double(samples.value());
  const Seconds host(fitted::hostMicroseconds * 1e-6);
  PassTimes times;
  Seconds forwardHost, backwardHost;
  auto fastest = [&](const KernelWork &kernel, auto pass) {
    const Seconds time = (kernels.*pass)(kernel, count);
    return kernels.canBePlain(kernel) ? std::min(time, (plain.*pass)(kernel, count)) : time;
  };
  for (const KernelWork &kernel : kernelsOf(layer)) {
    times.forward += fastest(kernel, &Kernels::forward);
    forwardHost += host * (kernel.count + kernels.casts(kernel));
    Seconds backward = fastest(kernel, &Kernels::backward);
    times.backward += backward;
    if (backward > Seconds())
      backwardHost +=
          host * (kernel.count * Kernels::productsOfBackward(kernel) + kernels.casts(kernel));
  }
  return {std::max(times.forward, forwardHost), std::max(times.backward, backwardHost)};
}

Bytes roundedWeights(const Layer &layer) {
  Bytes sum;
  for (const KernelWork &kernel : layer.kernels)
    sum += weightsOf(kernel);
  return std::min(sum, layer.denseBytes());
}

MemoryFormat fasterFormat(const LayerGraph &graph, const Cluster &cluster, Precision precision,
                          Samples batch) {
  const Samples share(std::max<int64_t>(1, batch.value() / std::max(1, cluster.totalDevices())));
  Seconds first, last;
  for (const DeviceType &type : cluster.types)
    if (type.deviceClass == DeviceClass::Gpu && type.rates)
      for (const Layer &layer : graph.layers) {
        PassTimes a = kernelTimes(layer, type, share, {precision, MemoryFormat::ChannelsFirst});
        PassTimes b = kernelTimes(layer, type, share, {precision, MemoryFormat::ChannelsLast});
        first += a.forward + a.backward;
        last += b.forward + b.backward;
      }
  return last < first ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsFirst;
}

double kernelHalfWidth(LayerKind kind, const DeviceType &device, Precision precision) {
  constexpr double usual = 0.25, ofUnknown = 0.35;
  double halfWidth = usual;
#define HETERPLAN_KERNEL_UNCERTAINTY(enumerator, value)                                            \
  if (kind == LayerKind::enumerator)                                                               \
    halfWidth = value;
#include "cost/KernelParameters.def"
  return isTold(device, precision) ? halfWidth : std::hypot(halfWidth, ofUnknown);
}

double elementwiseShare() { return fitted::elementwise; }

Seconds elementwiseTime(const DeviceType &device, Bytes moved, double count) {
  const BytesPerSecond bandwidth = kernelRates(device, Precision::Fp32).memory * elementwiseShare();
  const Seconds time = moved / bandwidth + Seconds(fitted::floorMicroseconds * 1e-6 * count);
  return std::max(time, Seconds(fitted::hostMicroseconds * 1e-6 * count));
}

} // namespace heterplan
