// Pooling by maximum and by mean, by cuDNN.
#include "cost/kernels/cuda/Descriptors.h"

namespace heterplan::kernels::cuda {
namespace {
constexpr float one = 1, zero = 0;

class Pooling : public Kernel {
public:
  Pooling(Context &context, const Call &call, int mode, const WindowSizes &sizes)
      : Kernel(context, call), source(describeTensor(context, format, call.inputs[0].dims)),
        target(describeTensor(context, format, call.outputs[0].dims)),
        windows(context, context.dnn.createPooling, context.dnn.destroyPooling) {
    context.check(context.dnn.setPooling(windows, mode, cudnnNanStays, int(sizes.kernel.size()),
                                         sizes.kernel.data(), sizes.padding.data(),
                                         sizes.strides.data()),
                  "cuDNN's description of pooling");
  }

  void forward() override {
    context.check(context.dnn.pool(context.dnnHandle, windows, &one, source, value(0), &zero,
                                   target, result()),
                  "cuDNN's pooling");
  }
  void backward() override {
    if (wants(0))
      context.check(context.dnn.poolBackward(context.dnnHandle, windows, &one, target, result(),
                                             target, arriving(), source, value(0), &zero, source,
                                             gradient(0)),
                    "cuDNN's gradient of pooling");
  }

private:
  Descriptor source, target, windows;
};

std::unique_ptr<Kernel> make(Context &context, const Call &call, int mode) {
  std::optional<Windows> windows = poolingOf(call);
  auto sizes = windows ? windowSizesOf(*windows, call.inputs[0].dims, call.outputs[0].dims)
                       : std::optional<WindowSizes>();
  return sizes ? std::make_unique<Pooling>(context, call, mode, *sizes) : nullptr;
}
} // namespace

std::unique_ptr<Kernel> makeMaxPool(Context &context, const Call &call) {
  return make(context, call, cudnnMaximum);
}

std::unique_ptr<Kernel> makeAveragePool(Context &context, const Call &call) {
  return make(context, call,
              call.integer("count_include_pad", 0) ? cudnnAverageWithPadding : cudnnAverage);
}

} // namespace heterplan::kernels::cuda
