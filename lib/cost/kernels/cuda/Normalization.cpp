// Layer normalisation, by kernels of our own.
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class LayerWise : public Kernel {
public:
  LayerWise(Context &context, const Call &call, Rows shape)
      : Kernel(context, call), shape(shape), epsilon(float(call.real("epsilon", 1e-5))),
        statistics(device, Format::Float, 2 * shape.groups) {
    for (size_t parameter = 1; parameter < inputs.size(); ++parameter)
      keepFloats(parameter);
  }

  void forward() override {
    normalize(device, format, shape, epsilon, value(0), inputs[1].value.floats(), shift(), result(),
              statistics.floats());
  }
  void backward() override {
    if (wants(0))
      normalizeGradient(device, format, shape, value(0), inputs[1].value.floats(),
                        statistics.floats(), arriving(), gradient(0));
    if (wants(1) || wants(2))
      normalizeParameters(device, format, shape, context.scratch, value(0), statistics.floats(),
                          arriving(), inputs[1].gradient.floats(),
                          wants(2) ? inputs[2].gradient.floats() : nullptr);
  }

private:
  const float *shift() const { return inputs.size() > 2 ? inputs[2].value.floats() : nullptr; }

  Rows shape;
  float epsilon;
  Tensor statistics;
};
} // namespace

std::unique_ptr<Kernel> makeLayerNormalization(Context &context, const Call &call) {
  std::optional<Rows> rows = layerNormalizationOf(call);
  return rows ? std::make_unique<LayerWise>(context, call, *rows) : nullptr;
}

} // namespace heterplan::kernels::cuda
