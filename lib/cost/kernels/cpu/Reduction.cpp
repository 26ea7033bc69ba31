// Sums and means over axes.
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
class Folding : public Kernel {
public:
  Folding(const Call &call, dnnl::algorithm algorithm, Reduction reduction)
      : Kernel(call), shape(std::move(reduction)) {
    dnnl::memory::desc target = plain(shape.kept);
    dnnl::reduction::primitive_desc description(
        dnnl::reduction::desc(algorithm, inputs[0].value.get_desc(), target, 0, 0), engine());
    forwardSteps.push_back(
        {dnnl::reduction(description),
         {{DNNL_ARG_SRC, inputs[0].value}, {DNNL_ARG_DST, view(outputs[0].value, target)}}});
  }

  /// Each value gets its part of the gradient of what it went into.
  void backward() override {
    if (!wants(0))
      return;
    const float *arriving = floats(outputs[0].gradient);
    float *gradient = floats(inputs[0].gradient);
    const Dims &dims = shape.dims;
    Dims strides = stridesOf(shape.kept);
    for (size_t axis = 0; axis < dims.size(); ++axis)
      strides[axis] = shape.kept[axis] == 1 ? 0 : strides[axis];
    int64_t run = dims.back(), step = strides.back();
    Dims position(dims.size() - 1, 0);
    int64_t source = 0;
    for (int64_t at = 0, all = product(dims); at < all; at += run) {
      for (int64_t k = 0; k < run; ++k)
        gradient[at + k] = arriving[source + k * step] * shape.factor;
      for (size_t axis = position.size(); axis-- > 0;) {
        source += strides[axis];
        if (++position[axis] < dims[axis])
          break;
        source -= strides[axis] * dims[axis];
        position[axis] = 0;
      }
    }
  }

private:
  Reduction shape;
};

std::unique_ptr<Kernel> make(const Call &call, dnnl::algorithm algorithm) {
  std::optional<Reduction> reduction = reductionOf(call);
  return reduction ? std::make_unique<Folding>(call, algorithm, std::move(*reduction)) : nullptr;
}
} // namespace

std::unique_ptr<Kernel> makeReduceMean(const Call &call) {
  return make(call, dnnl::algorithm::reduction_mean);
}
std::unique_ptr<Kernel> makeReduceSum(const Call &call) {
  return make(call, dnnl::algorithm::reduction_sum);
}

} // namespace heterplan::kernels::cpu
