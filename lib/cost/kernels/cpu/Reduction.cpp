// Sums and means over axes.
#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>

namespace heterplan::cpu {
namespace {
class Reduction : public Kernel {
public:
  /// `kept`: the shape of the result with axes of one in place of those that are gone.
  Reduction(const Call &call, dnnl::algorithm algorithm, const Dims &kept)
      : Kernel(call), dims(call.inputs[0].dims), kept(kept),
        factor(algorithm == dnnl::algorithm::reduction_mean
                   ? float(product(kept)) / float(product(dims))
                   : 1) {
    dnnl::memory::desc target = plain(kept);
    dnnl::reduction::primitive_desc description(
        dnnl::reduction::desc(algorithm, inputs[0].value.get_desc(), target, 0, 0), engine());
    forwardSteps.push_back(
        {dnnl::reduction(description),
         {{DNNL_ARG_SRC, inputs[0].value},
          {DNNL_ARG_DST, dnnl::memory(target, engine(), outputs[0].value.get_data_handle())}}});
  }

  /// Each value gets its part of the gradient of what it went into.
  void backward() override {
    if (!inputs[0].gradient.get(true))
      return;
    const float *arriving = floats(outputs[0].gradient);
    float *gradient = floats(inputs[0].gradient);
    Dims strides = stridesOf(kept);
    for (size_t axis = 0; axis < dims.size(); ++axis)
      strides[axis] = kept[axis] == 1 ? 0 : strides[axis];
    int64_t run = dims.back(), step = strides.back();
    Dims position(dims.size() - 1, 0);
    int64_t source = 0;
    for (int64_t at = 0, all = product(dims); at < all; at += run) {
      for (int64_t k = 0; k < run; ++k)
        gradient[at + k] = arriving[source + k * step] * factor;
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
  Dims dims, kept;
  float factor;
};

std::unique_ptr<Kernel> make(const Call &call, dnnl::algorithm algorithm) {
  const Dims &dims = call.inputs[0].dims;
  bool second = call.inputs.size() > 1 && call.inputs[1].tensor;
  Dims axes = second ? call.constant(1) : call.integers("axes", {});
  if (!call.inputs[0].isFloat() || (second && axes.empty()) || product(dims) == 0)
    return nullptr;
  Dims kept = axes.empty() ? Dims(dims.size(), 1) : dims;
  for (int64_t axis : axes)
    kept[axis < 0 ? axis + int64_t(dims.size()) : axis] = 1;
  if (kept == dims)
    return nullptr; // nothing is reduced
  return std::make_unique<Reduction>(call, algorithm, kept);
}
} // namespace

std::unique_ptr<Kernel> makeReduceMean(const Call &call) {
  return make(call, dnnl::algorithm::reduction_mean);
}
std::unique_ptr<Kernel> makeReduceSum(const Call &call) {
  return make(call, dnnl::algorithm::reduction_sum);
}

} // namespace heterplan::cpu
