#include "cost/ForLoopUpdates.h"

#include "cost/KernelModel.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
/// The kernels of one parameter, and how often they move its bytes together.
struct Kernels {
  double count, traffic;
};

/// As PyTorch 2.13 has them (torch/optim, _single_tensor_sgd and _single_tensor_adam). SGD: add_.
/// Momentum: mul_ (2) and add_ (3) of the velocity before. Adam: lerp_ (3), mul_ (2), addcmul_ (3),
/// sqrt (2), division by a number (2), add_ of a number (2), addcdiv_ (4).
Kernels kernelsOf(Optimizer optimizer) {
  switch (optimizer) {
  case Optimizer::Sgd:
    return {1, 3};
  case Optimizer::Momentum:
    return {3, 8};
  case Optimizer::Adam:
    return {7, 18};
  }
  assert(false && "an optimizer has no entry");
  return {7, 18};
}
} // namespace

Expected<LayerCost> ForLoopUpdates::price(const Layer &layer, const DeviceType &device,
                                          Samples batch) const {
  Expected<LayerCost> cost = fused.price(layer, device, batch);
  const double parameters = double(layer.parameters.size()) - double(layer.tables.size());
  const Bytes dense = layer.denseBytes();
  if (!cost || device.deviceClass != DeviceClass::Gpu || !device.rates || dense == Bytes())
    return cost;
  const Kernels kernels = kernelsOf(optimizer);
  cost->update =
      elementwiseTime(device, dense * kernels.traffic, kernels.count * std::max(parameters, 1.0));
  cost->provenance = std::max(cost->provenance, Provenance::Modelled);
  return cost;
}

} // namespace heterplan
