// The cost of a layer on a device. Models are pure, thread-safe and know nothing of search.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "support/Units.h"

#include "llvm/Support/Error.h"

namespace heterplan {

/// Times of one layer on one device.
struct LayerCost {
  Seconds forward{};
  Seconds backward{};
  Seconds update{}; // parameter update, once an iteration
  Provenance provenance = Provenance::Modelled;
  /// Adding the gradients of one more micro-batch to those that are there, less the rounding of
  /// weights to 16 bits that only the first micro-batch of a step needs.
  Seconds accumulate{};
  /// By how much the passes may be off: half-width of their 90 % interval, relative (of the natural
  /// logarithm). 0: what is usual of the provenance (Uncertainty.h).
  double halfWidth = 0;
};

class CostModel {
public:
  virtual ~CostModel() = default;
  /// Time of one forward and backward pass of `layer` over `batch` samples on one device of type
  /// `device`. Fails with Diag::NoProfile when the model cannot say; it never guesses in silence.
  virtual llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                          Samples batch) const = 0;
  /// Whether more samples may take less time, as measured ones now and then do.
  virtual bool mayFall(const Layer &, const DeviceType &) const { return false; }
};

} // namespace heterplan
