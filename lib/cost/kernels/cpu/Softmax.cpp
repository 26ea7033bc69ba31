// Softmax and its logarithm along one axis.
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::cpu {
namespace {
template <typename Forward, typename Backward> class AlongAxis : public Kernel {
public:
  AlongAxis(const Call &call, int axis) : Kernel(call) {
    dnnl::memory::desc desc = inputs[0].value.get_desc();
    typename Forward::primitive_desc description(
        typename Forward::desc(dnnl::prop_kind::forward_training, desc, axis), engine());
    forwardSteps.push_back({Forward(description),
                            {{DNNL_ARG_SRC, inputs[0].value}, {DNNL_ARG_DST, outputs[0].value}}});
    if (!inputs[0].gradient.get(true))
      return;
    typename Backward::primitive_desc back(typename Backward::desc(desc, desc, axis), engine(),
                                           description);
    backwardSteps.push_back({Backward(back),
                             {{DNNL_ARG_DST, outputs[0].value},
                              {DNNL_ARG_DIFF_DST, outputs[0].gradient},
                              {DNNL_ARG_DIFF_SRC, inputs[0].gradient}}});
  }
};

int axisOf(const Call &call) {
  int64_t axis = call.integer("axis", -1);
  return static_cast<int>(axis < 0 ? axis + int64_t(call.inputs[0].dims.size()) : axis);
}
} // namespace

std::unique_ptr<Kernel> makeSoftmax(const Call &call) {
  return std::make_unique<AlongAxis<dnnl::softmax_forward, dnnl::softmax_backward>>(call,
                                                                                    axisOf(call));
}

std::unique_ptr<Kernel> makeLogSoftmax(const Call &call) {
  return std::make_unique<AlongAxis<dnnl::logsoftmax_forward, dnnl::logsoftmax_backward>>(
      call, axisOf(call));
}

} // namespace heterplan::cpu
