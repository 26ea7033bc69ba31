// Pooling by maximum and by mean.
#include "cost/kernels/Windows.h"
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
class Pooling : public Kernel {
public:
  Pooling(const Call &call, dnnl::algorithm algorithm, const Windows &windows) : Kernel(call) {
    dnnl::memory::desc source = inputs[0].value.get_desc(), target = outputs[0].value.get_desc();
    dnnl::pooling_forward::primitive_desc description(
        dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training, algorithm, source, target,
                                    windows.strides, windows.kernel, windows.before, windows.after),
        engine());
    dnnl::memory workspace;
    Step step{dnnl::pooling_forward(description),
              {{DNNL_ARG_SRC, inputs[0].value}, {DNNL_ARG_DST, outputs[0].value}}};
    bool remembers = algorithm == dnnl::algorithm::pooling_max;
    if (remembers) {
      workspace = dnnl::memory(description.workspace_desc(), engine());
      step.arguments[DNNL_ARG_WORKSPACE] = workspace;
    }
    forwardSteps.push_back(step);
    if (!wants(0))
      return;
    dnnl::pooling_backward::primitive_desc back(
        dnnl::pooling_backward::desc(algorithm, source, target, windows.strides, windows.kernel,
                                     windows.before, windows.after),
        engine(), description);
    Step returning{
        dnnl::pooling_backward(back),
        {{DNNL_ARG_DIFF_DST, outputs[0].gradient}, {DNNL_ARG_DIFF_SRC, inputs[0].gradient}}};
    if (remembers)
      returning.arguments[DNNL_ARG_WORKSPACE] = workspace;
    backwardSteps.push_back(returning);
  }
};

std::unique_ptr<Kernel> make(const Call &call, dnnl::algorithm algorithm) {
  std::optional<Windows> windows = poolingOf(call);
  return windows ? std::make_unique<Pooling>(call, algorithm, *windows) : nullptr;
}
} // namespace

std::unique_ptr<Kernel> makeMaxPool(const Call &call) {
  return make(call, dnnl::algorithm::pooling_max);
}

std::unique_ptr<Kernel> makeAveragePool(const Call &call) {
  return make(call, call.integer("count_include_pad", 0)
                        ? dnnl::algorithm::pooling_avg_include_padding
                        : dnnl::algorithm::pooling_avg_exclude_padding);
}

} // namespace heterplan::kernels::cpu
