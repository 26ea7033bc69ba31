// Sums and means over axes, by kernels of our own.
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class Folded : public Kernel {
public:
  Folded(Context &context, const Call &call, float factor, const Folding &folding, const Walk &walk)
      : Kernel(context, call), factor(factor), folding(folding), walk(walk) {}

  void forward() override {
    sum(device, format, factor, folding, context.scratch, value(0), result());
  }
  /// Each value gets its part of the gradient of what it went into.
  void backward() override {
    if (wants(0))
      copy(device, format, factor, inputs[0].value.count, walk, arriving(), gradient(0));
  }

private:
  float factor;
  Folding folding; // the input
  Walk walk;       // the result, the input
};
} // namespace

std::unique_ptr<Kernel> makeReduction(Context &context, const Call &call) {
  std::optional<Reduction> reduction = reductionOf(call);
  if (!reduction)
    return nullptr;
  // The result, broadcast, is walked through as the input is; neighbouring axes are one.
  Broadcast shape = broadcastOf(reduction->dims, reduction->kept, reduction->dims);
  auto folding = foldingOf(shape.dims, shape.right, {shape.left});
  auto walk = walkOf(shape.dims, {shape.right, shape.left});
  if (!folding || !walk)
    return nullptr;
  return std::make_unique<Folded>(context, call, reduction->factor, *folding, *walk);
}

} // namespace heterplan::kernels::cuda
