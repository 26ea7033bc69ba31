// Convolutions, in the layouts that oneDNN prefers.
#include "cost/kernels/Windows.h"
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
using Desc = dnnl::memory::desc;

Desc any(const Dims &dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

class Convolution : public Kernel {
public:
  Convolution(const Call &call, const Windows &windows)
      : Kernel(call), windows(windows), weightDims(call.inputs[1].dims) {
    Dims dims = call.inputs[0].dims;
    if (int64_t group = call.integer("group", 1); group > 1) {
      weightDims[0] /= group;
      weightDims.insert(weightDims.begin(), group);
    }
    for (int64_t &dilation : this->windows.dilations)
      --dilation; // oneDNN counts none as 0
    bias = call.has(2);
    makeForward(dims, call.outputs[0].dims);
    if (wants(0))
      makeBackwardData(dims);
    if (wants(1))
      makeBackwardWeights(dims);
  }

private:
  static constexpr auto direct = dnnl::algorithm::convolution_direct;

  void makeForward(const Dims &source, const Dims &target) {
    dnnl::convolution_forward::desc desc =
        bias ? dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, direct,
                                               any(source), any(weightDims), biasDesc(),
                                               any(target), windows.strides, windows.dilations,
                                               windows.before, windows.after)
             : dnnl::convolution_forward::desc(
                   dnnl::prop_kind::forward_training, direct, any(source), any(weightDims),
                   any(target), windows.strides, windows.dilations, windows.before, windows.after);
    description = dnnl::convolution_forward::primitive_desc(desc, engine());
    place(inputs[0], description.src_desc());
    place(inputs[1], description.weights_desc());
    place(outputs[0], description.dst_desc());
    Step step{dnnl::convolution_forward(description),
              {{DNNL_ARG_SRC, inputs[0].value},
               {DNNL_ARG_WEIGHTS, inputs[1].value},
               {DNNL_ARG_DST, outputs[0].value}}};
    if (bias)
      step.arguments[DNNL_ARG_BIAS] = inputs[2].value;
    forwardSteps.push_back(step);
  }

  void makeBackwardData(const Dims &source) {
    dnnl::convolution_backward_data::desc desc(
        direct, any(source), any(weightDims), any(outputs[0].value.get_desc().dims()),
        windows.strides, windows.dilations, windows.before, windows.after);
    dnnl::convolution_backward_data::primitive_desc back(desc, engine(), description);
    dnnl::memory arriving = as(outputs[0].gradient, back.diff_dst_desc(), backwardSteps);
    dnnl::memory weights = as(inputs[1].value, back.weights_desc(), backwardSteps);
    inputs[0].gradient = dnnl::memory(back.diff_src_desc(), engine());
    backwardSteps.push_back({dnnl::convolution_backward_data(back),
                             {{DNNL_ARG_DIFF_DST, arriving},
                              {DNNL_ARG_WEIGHTS, weights},
                              {DNNL_ARG_DIFF_SRC, inputs[0].gradient}}});
  }

  void makeBackwardWeights(const Dims &source) {
    using Back = dnnl::convolution_backward_weights;
    Desc target = any(outputs[0].value.get_desc().dims());
    bool withBias = bias && wants(2);
    Back::desc desc =
        withBias ? Back::desc(direct, any(source), any(weightDims), biasDesc(), target,
                              windows.strides, windows.dilations, windows.before, windows.after)
                 : Back::desc(direct, any(source), any(weightDims), target, windows.strides,
                              windows.dilations, windows.before, windows.after);
    Back::primitive_desc back(desc, engine(), description);
    dnnl::memory arriving = as(outputs[0].gradient, back.diff_dst_desc(), backwardSteps);
    dnnl::memory seen = as(inputs[0].value, back.src_desc(), backwardSteps);
    inputs[1].gradient = dnnl::memory(back.diff_weights_desc(), engine());
    Step step{Back(back),
              {{DNNL_ARG_DIFF_DST, arriving},
               {DNNL_ARG_SRC, seen},
               {DNNL_ARG_DIFF_WEIGHTS, inputs[1].gradient}}};
    if (withBias)
      step.arguments[DNNL_ARG_DIFF_BIAS] = inputs[2].gradient;
    backwardSteps.push_back(step);
  }

  Desc biasDesc() const { return inputs[2].value.get_desc(); }

  static void place(Slot &slot, const Desc &desc) {
    slot.value = dnnl::memory(desc, engine());
    if (slot.gradient.get(true))
      slot.gradient = dnnl::memory(desc, engine());
  }

  Windows windows;
  Dims weightDims;
  bool bias = false;
  dnnl::convolution_forward::primitive_desc description;
};
} // namespace

std::unique_ptr<Kernel> makeConvolution(const Call &call) {
  std::optional<Windows> windows = windowsOf(call, call.inputs[1].dims);
  return windows ? std::make_unique<Convolution>(call, *windows) : nullptr;
}

} // namespace heterplan::kernels::cpu
