// Softmax and its logarithm along one axis.
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
template <typename Forward, typename Backward> class AlongAxis : public Kernel {
public:
  AlongAxis(const Call &call, int axis) : Kernel(call) {
    dnnl::memory::desc desc = inputs[0].value.get_desc();
    typename Forward::primitive_desc description(
        typename Forward::desc(dnnl::prop_kind::forward_training, desc, axis), engine());
    forwardSteps.push_back({Forward(description),
                            {{DNNL_ARG_SRC, inputs[0].value}, {DNNL_ARG_DST, outputs[0].value}}});
    if (!wants(0))
      return;
    typename Backward::primitive_desc back(typename Backward::desc(desc, desc, axis), engine(),
                                           description);
    backwardSteps.push_back({Backward(back),
                             {{DNNL_ARG_DST, outputs[0].value},
                              {DNNL_ARG_DIFF_DST, outputs[0].gradient},
                              {DNNL_ARG_DIFF_SRC, inputs[0].gradient}}});
  }
};

template <typename Forward, typename Backward> std::unique_ptr<Kernel> make(const Call &call) {
  int64_t axis = axisOf(call.integer("axis", -1), call.inputs[0].dims.size());
  return std::make_unique<AlongAxis<Forward, Backward>>(call, int(axis));
}
} // namespace

std::unique_ptr<Kernel> makeSoftmax(const Call &call) {
  return make<dnnl::softmax_forward, dnnl::softmax_backward>(call);
}

std::unique_ptr<Kernel> makeLogSoftmax(const Call &call) {
  return make<dnnl::logsoftmax_forward, dnnl::logsoftmax_backward>(call);
}

} // namespace heterplan::kernels::cpu
