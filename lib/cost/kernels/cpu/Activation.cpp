// Functions of one value: those of oneDNN, and the error function.
#include "cost/kernels/Functions.h"
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Runs.h"
#include "ir/NodeAttributes.h"

namespace heterplan::kernels::cpu {
namespace {
using dnnl::algorithm;

class Activation : public Kernel {
public:
  Activation(const Call &call, algorithm function, float alpha = 0, float beta = 0) : Kernel(call) {
    dnnl::memory::desc desc = inputs[0].value.get_desc();
    dnnl::eltwise_forward::primitive_desc description(
        dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_training, function, desc, alpha, beta),
        engine());
    forwardSteps.push_back({dnnl::eltwise_forward(description),
                            {{DNNL_ARG_SRC, inputs[0].value}, {DNNL_ARG_DST, outputs[0].value}}});
    if (!wants(0))
      return;
    dnnl::eltwise_backward::primitive_desc back(
        dnnl::eltwise_backward::desc(function, desc, desc, alpha, beta), engine(), description);
    backwardSteps.push_back({dnnl::eltwise_backward(back),
                             {{DNNL_ARG_SRC, inputs[0].value},
                              {DNNL_ARG_DIFF_DST, outputs[0].gradient},
                              {DNNL_ARG_DIFF_SRC, inputs[0].gradient}}});
  }
};

class ErrorFunction : public Kernel {
public:
  using Kernel::Kernel;

  void forward() override {
    const float *x = floats(inputs[0].value);
    float *y = floats(outputs[0].value);
    inParallel(count(), leastOfThread, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = GaussError::value(x[i]);
    });
  }

  void backward() override {
    if (!wants(0))
      return;
    const float *x = floats(inputs[0].value), *arriving = floats(outputs[0].gradient);
    float *gradient = floats(inputs[0].gradient);
    inParallel(count(), leastOfThread, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        gradient[i] = arriving[i] * GaussError::slope(x[i]);
    });
  }

private:
  int64_t count() const { return product(inputs[0].value.get_desc().dims()); }
};

std::unique_ptr<Kernel> make(const Call &call, algorithm function) {
  return std::make_unique<Activation>(call, function);
}
} // namespace

std::unique_ptr<Kernel> makeRelu(const Call &call) { return make(call, algorithm::eltwise_relu); }
std::unique_ptr<Kernel> makeSigmoid(const Call &call) {
  return make(call, algorithm::eltwise_logistic);
}
std::unique_ptr<Kernel> makeTanh(const Call &call) { return make(call, algorithm::eltwise_tanh); }
std::unique_ptr<Kernel> makeSqrt(const Call &call) { return make(call, algorithm::eltwise_sqrt); }
std::unique_ptr<Kernel> makeExp(const Call &call) { return make(call, algorithm::eltwise_exp); }
std::unique_ptr<Kernel> makeLog(const Call &call) { return make(call, algorithm::eltwise_log); }
std::unique_ptr<Kernel> makeErf(const Call &call) { return std::make_unique<ErrorFunction>(call); }

/// The exact one, or the approximation by a hyperbolic tangent.
std::unique_ptr<Kernel> makeGelu(const Call &call) {
  const auto *approximate = findAttribute<std::string>(call.node, "approximate");
  bool isTanh = approximate && *approximate == "tanh";
  return make(call, isTanh ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf);
}

std::unique_ptr<Kernel> makeSwish(const Call &call) {
  const auto *alpha = findAttribute<double>(call.node, "alpha");
  return std::make_unique<Activation>(call, algorithm::eltwise_swish, alpha ? float(*alpha) : 1);
}

std::unique_ptr<Kernel> makeClip(const Call &call) {
  auto bounds = boundsOf(call);
  if (!bounds)
    return nullptr;
  return std::make_unique<Activation>(call, algorithm::eltwise_clip, bounds->first, bounds->second);
}

} // namespace heterplan::kernels::cpu
