// Pooling by maximum and by mean.
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Windows.h"

#include <algorithm>

namespace heterplan::cpu {
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
    if (!inputs[0].gradient.get(true))
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

std::unique_ptr<Kernel> makePooling(const Call &call, dnnl::algorithm algorithm,
                                    const Dims &kernel) {
  std::optional<Windows> windows = windowsOf(call, kernel);
  if (!windows || std::any_of(windows->dilations.begin(), windows->dilations.end(),
                              [](int64_t dilation) { return dilation != 0; }))
    return nullptr;
  return std::make_unique<Pooling>(call, algorithm, *windows);
}
} // namespace

std::unique_ptr<Kernel> makeMaxPool(const Call &call) {
  if (call.outputs.size() > 1 && call.outputs[1].tensor)
    return nullptr; // positions are an output of their own
  return makePooling(call, dnnl::algorithm::pooling_max, call.integers("kernel_shape", {}));
}

std::unique_ptr<Kernel> makeAveragePool(const Call &call) {
  auto algorithm = call.integer("count_include_pad", 0)
                       ? dnnl::algorithm::pooling_avg_include_padding
                       : dnnl::algorithm::pooling_avg_exclude_padding;
  return makePooling(call, algorithm, call.integers("kernel_shape", {}));
}

std::unique_ptr<Kernel> makeGlobalAveragePool(const Call &call) {
  const Dims &source = call.inputs[0].dims;
  if (source.size() < 3)
    return nullptr;
  return makePooling(call, dnnl::algorithm::pooling_avg_exclude_padding,
                     Dims(source.begin() + 2, source.end()));
}

} // namespace heterplan::cpu
