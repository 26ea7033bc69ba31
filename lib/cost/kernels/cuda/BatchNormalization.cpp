// Batch normalisation in training, by cuDNN.
#include "cost/kernels/cuda/Descriptors.h"

namespace heterplan::kernels::cuda {
namespace {
constexpr float one = 1, zero = 0;

class BatchWise : public Kernel {
public:
  /// `shape`: samples, channels, places.
  BatchWise(Context &context, const Call &call, const Dims &shape)
      : Kernel(context, call), epsilon(call.real("epsilon", 1e-5)),
        data(describeTensor(context, format, shape)),
        channels(describeTensor(context, Format::Float, {1, shape[1], 1})),
        mean(device, Format::Float, shape[1]), inverse(device, Format::Float, shape[1]),
        unwanted(device, Format::Float, shape[1]) {
    keepFloats(1);
    keepFloats(2);
    if (!wants(0)) // cuDNN has all gradients or none
      inputs[0].gradient = Tensor(device, format, inputs[0].value.count);
  }

  void forward() override {
    context.check(context.dnn.normalize(context.dnnHandle, cudnnSpatialNormal, &one, &zero, data,
                                        value(0), data, result(), channels, value(1), value(2), 1,
                                        nullptr, nullptr, epsilon, mean.data(), inverse.data()),
                  "cuDNN's batch normalisation");
  }
  void backward() override {
    context.check(context.dnn.normalizeBackward(context.dnnHandle, cudnnSpatialNormal, &one, &zero,
                                                &one, &zero, data, value(0), data, arriving(), data,
                                                gradient(0), channels, value(1),
                                                parameterGradient(1), parameterGradient(2), epsilon,
                                                mean.data(), inverse.data()),
                  "cuDNN's gradient of batch normalisation");
  }

private:
  void *parameterGradient(size_t input) const {
    return wants(input) ? gradient(input) : unwanted.data();
  }

  double epsilon;
  Descriptor data, channels;
  Tensor mean, inverse, unwanted;
};
} // namespace

std::unique_ptr<Kernel> makeBatchNormalization(Context &context, const Call &call) {
  llvm::ArrayRef<int64_t> dims = call.inputs[0].dims;
  if (dims.size() < 2 || !call.has(2) || !call.outputs[0].wanted)
    return nullptr;
  return std::make_unique<BatchWise>(context, call,
                                     Dims{dims[0], dims[1], product(dims.drop_front(2))});
}

} // namespace heterplan::kernels::cuda
