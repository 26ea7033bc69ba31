// The roofline: a kernel is limited by arithmetic or by memory, whichever takes longer. Prices any
// layer on any device with peak rates; everything it says is Modelled. On a GPU a layer is the sum
// of its kernels (KernelModel.h).
// Source: Williams, Waterman and Patterson, Roofline, CACM 2009.
#pragma once

#include "cost/CostModel.h"
#include "ir/Plan.h"

namespace heterplan {

/// On a CPU: time of a pass = max(flops·batch / (peak·e_c), (bytes·batch + parameters·traffic) /
/// (bandwidth·e_m)) + launch overhead, with the efficiencies e of Efficiency.def.
/// Precision: tf32 and bf16 use their peaks for layers whose kernels can (products and
/// convolutions). bf16 is autocast: it halves the bytes of a pass, but for those of embeddings, and
/// rounds weights, which stay fp32, before each pass. A device without such units computes in fp32.
/// Update: parameter, gradient and state traffic of the optimizer over the memory bandwidth.
class RooflineModel : public CostModel {
public:
  RooflineModel(Optimizer optimizer, Precision precision,
                MemoryFormat format = MemoryFormat::ChannelsFirst)
      : optimizer(optimizer), precision(precision), format(format) {}

  /// NoProfile for a device without rates, and for an opaque layer that states no work at all.
  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;

private:
  LayerCost priceKernels(const Layer &layer, const DeviceType &device, Samples batch) const;

  Optimizer optimizer;
  Precision precision;
  MemoryFormat format;
};

/// How often an update moves the bytes of the parameters: SGD reads parameter and gradient and
/// writes the parameter (3), momentum moves the velocity too (5), Adam two moments (7).
int updateTraffic(Optimizer optimizer);

} // namespace heterplan
