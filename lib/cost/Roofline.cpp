#include "cost/Roofline.h"

#include "cost/KernelModel.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
struct Efficiency {
  double fp32, tf32, bf16, bandwidth;
};

struct ParameterTraffic {
  double forward = 1, backward = 2;
};

Efficiency efficiencyOf(LayerKind layer, DeviceClass device) {
#define HETERPLAN_EFFICIENCY(kind, deviceClass, fp32, tf32, bf16, bandwidth)                       \
  if (layer == LayerKind::kind && device == DeviceClass::deviceClass)                              \
    return {fp32, tf32, bf16, bandwidth};
#include "cost/Efficiency.def"
  assert(false && "Efficiency.def has no line for this kind");
  return {0.1, 0, 0, 0.1};
}

ParameterTraffic parameterTraffic(LayerKind layer) {
#define HETERPLAN_PARAMETER_TRAFFIC(kind, forward, backward)                                       \
  if (layer == LayerKind::kind)                                                                    \
    return {forward, backward};
#include "cost/Efficiency.def"
  return {};
}

/// The limits of a layer on a device at a precision.
struct Limits {
  FlopsPerSecond compute;
  BytesPerSecond bandwidth;
  double bytesScale = 1; // bytes moved, of those in fp32
};

Limits limitsOf(LayerKind kind, const DeviceType &device, Precision precision) {
  const PeakRates &rates = *device.rates;
  Efficiency share = efficiencyOf(kind, device.deviceClass);
  Limits limits{rates.fp32 * share.fp32, rates.memory * share.bandwidth};
  if (precision == Precision::Tf32)
    limits.compute = std::max(limits.compute, rates.tf32 * share.tf32);
  if (precision == Precision::Bf16)
    limits.compute = std::max(limits.compute, rates.bf16 * share.bf16);
  if (precision == Precision::Bf16 && rates.bf16.value() > 0 && kind != LayerKind::Embedding)
    limits.bytesScale = 0.5; // autocast leaves tables and what is looked up alone
  return limits;
}

/// How often the bytes of a layer's parameters move for autocast alone in each pass: before it 4
/// bytes of a number are read and 2 written, and behind it those of its gradient the other way.
double roundingTraffic(LayerKind kind, const DeviceType &device, Precision precision) {
  bool rounds = precision == Precision::Bf16 && device.rates->bf16.value() > 0 &&
                efficiencyOf(kind, device.deviceClass).bf16 > 0;
  return rounds ? 1.5 : 0;
}

Seconds passTime(const Limits &limits, Flops work, Bytes moved) {
  return std::max(work / limits.compute, moved * limits.bytesScale / limits.bandwidth);
}

bool saysNothing(const Layer &layer) {
  return layer.kind == LayerKind::Opaque && layer.forwardFlops == Flops() &&
         layer.backwardFlops == Flops() && layer.forwardBytes == Bytes() &&
         layer.backwardBytes == Bytes();
}
} // namespace

int updateTraffic(Optimizer optimizer) {
  switch (optimizer) {
  case Optimizer::Sgd:
    return 3;
  case Optimizer::Momentum:
    return 5;
  case Optimizer::Adam:
    return 7;
  }
  assert(false && "an optimizer has no entry");
  return 7;
}

/// Tables are not products: a sparse gradient has the rows that were looked up, and a dense one is
/// filled once.
LayerCost RooflineModel::priceKernels(const Layer &layer, const DeviceType &device,
                                      Samples batch) const {
  const PassTimes passes = kernelTimes(layer, device, batch, {precision, format});
  const BytesPerSecond streaming = kernelRates(device, precision).memory * elementwiseShare();
  const Bytes dense = layer.denseBytes();
  const Bytes rows = layer.lookupBytes() * (double(batch.value()) * updateTraffic(optimizer));
  LayerCost cost;
  cost.halfWidth = kernelHalfWidth(layer.kind, device, precision);
  cost.forward = passes.forward;
  cost.backward = passes.backward + rows / streaming;
  if (layer.kind == LayerKind::Embedding)
    cost.backward += dense / streaming;
  if (dense.value() > 0) {
    cost.update = dense * double(updateTraffic(optimizer)) / streaming;
    cost.accumulate = dense * double(updateTraffic(Optimizer::Sgd)) / streaming;
    if (isHalf(precision)) // the passes of one more micro-batch find the weights rounded
      cost.accumulate -= roundedWeights(layer) * 1.5 / streaming;
  }
  return cost;
}

Expected<LayerCost> RooflineModel::price(const Layer &layer, const DeviceType &device,
                                         Samples batch) const {
  if (!device.rates)
    return Diagnostic(Diag::NoProfile, device.location)
               .note({}, "name an entry of profiles/devices ('catalogue: ...'), state 'fp32' and "
                         "'bandwidth', or give a profile")
           << "device type '" << device.name << "' has no peak rates, so layer '" << layer.name
           << "' cannot be modelled on it";
  if (saysNothing(layer))
    return Diagnostic(Diag::NoProfile, {})
               .note({}, "give a profile with an entry for it, or state its flops and bytes")
           << "layer '" << layer.name << "' is opaque and states no work, so its time on '"
           << device.name << "' cannot be modelled";
  if (device.deviceClass == DeviceClass::Gpu)
    return priceKernels(layer, device, batch);
  double samples = static_cast<double>(batch.value());
  Limits limits = limitsOf(layer.kind, device, precision);
  ParameterTraffic traffic = parameterTraffic(layer.kind);
  Seconds overhead = launchOverheadOf(device.deviceClass);
  LayerCost cost;
  Bytes dense = layer.denseBytes();
  Bytes rows = layer.lookupBytes() * (samples * updateTraffic(optimizer));
  cost.forward = overhead + passTime(limits, layer.forwardFlops * samples,
                                     layer.forwardBytes * samples + dense * traffic.forward);
  cost.backward =
      overhead + passTime(limits, layer.backwardFlops * samples,
                          layer.backwardBytes * samples + dense * traffic.backward + rows);
  if (dense.value() > 0) {
    Seconds once = dense / (device.rates->memory *
                            efficiencyOf(LayerKind::Elementwise, device.deviceClass).bandwidth);
    const double rounding = roundingTraffic(layer.kind, device, precision);
    cost.forward += once * rounding;
    cost.backward += once * rounding;
    cost.update = overhead + once * double(updateTraffic(optimizer));
    // The forward pass of one more micro-batch finds the weights rounded.
    cost.accumulate = overhead + once * (double(updateTraffic(Optimizer::Sgd)) - rounding);
  }
  return cost;
}

} // namespace heterplan
