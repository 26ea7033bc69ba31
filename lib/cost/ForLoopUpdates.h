// Updates of parameters one after another, as PyTorch's optimizers make them with foreach=False and
// fused=False, and as many older training scripts do.
#pragma once

#include "cost/CostModel.h"
#include "ir/Plan.h"

namespace heterplan {

/// The times of `fused`, with updates on GPUs in a for-loop: a parameter has kernels of its own,
/// each of which reads and writes whole tensors. Its sums of gradients stay as they are. Updates
/// count as Modelled: profiles measure fused ones. Devices without rates and CPUs have the times of
/// `fused`.
class ForLoopUpdates : public CostModel {
public:
  /// `fused` outlives the model.
  ForLoopUpdates(const CostModel &fused, Optimizer optimizer)
      : fused(fused), optimizer(optimizer) {}

  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override;
  bool mayFall(const Layer &layer, const DeviceType &device) const override {
    return fused.mayFall(layer, device);
  }

private:
  const CostModel &fused;
  Optimizer optimizer;
};

} // namespace heterplan
