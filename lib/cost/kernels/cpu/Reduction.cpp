// Sums and means over axes.
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Runs.h"

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
    Broadcast walk = broadcastOf(shape.kept, shape.dims, shape.dims);
    int64_t step = walk.left.back();
    eachRun(walk, nullptr, [=, factor = shape.factor](int64_t at, int64_t i, int64_t, int64_t n) {
      for (int64_t k = 0; k < n; ++k)
        gradient[at + k] = arriving[i + k * step] * factor;
    });
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
