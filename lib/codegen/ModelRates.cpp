#include "codegen/ModelRates.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {
namespace {
FlopsPerSecond peakOf(const PeakRates &rates, Precision precision) {
  FlopsPerSecond peak = isHalf(precision)              ? rates.half()
                        : precision == Precision::Tf32 ? rates.tf32
                                                       : rates.fp32;
  return peak.value() > 0 ? peak : rates.fp32;
}

/// The length of sequences of shape [N, length, width] or [length, N, width]; 0 for other shapes.
int64_t lengthOf(const Shape &shape) {
  if (shape.size() != 3)
    return 0;
  for (size_t batch : {0, 1}) {
    const Dim &samples = shape[batch], &length = shape[1 - batch];
    if (samples == Dim{1, 0} && length.perSample == 0 && length.fixed > 1)
      return length.fixed;
  }
  return 0;
}

/// The share of the work of matrix products in those with `rows` rows of a sample.
double shareOfProducts(const LayerGraph &model, int64_t rows) {
  double with = 0, all = 0;
  for (const Layer &layer : model.layers)
    for (const KernelWork &kernel : layer.kernels)
      if (kernel.product) {
        all += kernel.forwardFlops.value();
        with += kernel.product.rows == double(rows) ? kernel.forwardFlops.value() : 0;
      }
  return all > 0 ? with / all : 0;
}
} // namespace

std::set<DeviceRef> devicesOf(const Plan &plan) {
  std::set<DeviceRef> devices;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      devices.insert(replica.devices.begin(), replica.devices.end());
  return devices;
}

const DeviceType *typeOf(const Cluster &cluster, const std::string &name) {
  auto type = find_if(cluster.types, [&](const DeviceType &each) {
    return each.name == name || each.stated() == name;
  });
  return type == cluster.types.end() ? nullptr : &*type;
}

std::optional<int64_t> tokensPerSample(const LayerGraph &model) {
  for (const LayerTensor &tensor : model.tensors)
    if (model.layers[tensor.producer].kind == LayerKind::Embedding)
      if (int64_t length = lengthOf(tensor.shape))
        if (shareOfProducts(model, length) >= 0.5)
          return length;
  return std::nullopt;
}

std::optional<double> modelUtilisation(const Plan &plan, const Cluster &cluster,
                                       const LayerGraph &model) {
  double peak = 0, work = 0;
  for (const DeviceRef &device : devicesOf(plan)) {
    const DeviceType *type = typeOf(cluster, device.type);
    if (!type || !type->rates || !(peakOf(*type->rates, plan.precision).value() > 0))
      return std::nullopt;
    peak += peakOf(*type->rates, plan.precision).value();
  }
  for (const Layer &layer : model.layers)
    work += layer.forwardFlops.value() + layer.backwardFlops.value();
  double possible = peak * plan.iteration.value();
  if (!(possible > 0) || !(work > 0))
    return std::nullopt;
  return work * double(plan.globalBatch.value()) / possible;
}

} // namespace heterplan
