// Batch and layer normalisation, in training.
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

/// Common parts of both normalisations: scale and shift, statistics kept for the backward pass.
template <typename Forward, typename Backward> class Normalization : public Kernel {
public:
  /// `shape` is how the primitive sees the data.
  Normalization(const Call &call, const Dims &shape, float epsilon) : Kernel(call) {
    dnnl::memory::desc desc = plain(shape);
    typename Forward::primitive_desc description(
        typename Forward::desc(dnnl::prop_kind::forward_training, desc, epsilon, flags), engine());
    mean = dnnl::memory(description.mean_desc(), engine());
    variance = dnnl::memory(description.variance_desc(), engine());
    scale = vector(inputs[1].value, product(call.inputs[1].dims));
    bool shifted = call.has(2);
    shift = shifted ? vector(inputs[2].value, product(call.inputs[2].dims))
                    : dnnl::memory(scale.get_desc(), engine());
    if (!shifted)
      zero(shift);
    forwardSteps.push_back({Forward(description),
                            {{DNNL_ARG_SRC, view(inputs[0].value, desc)},
                             {DNNL_ARG_SCALE, scale},
                             {DNNL_ARG_SHIFT, shift},
                             {DNNL_ARG_MEAN, mean},
                             {DNNL_ARG_VARIANCE, variance},
                             {DNNL_ARG_DST, view(outputs[0].value, desc)}}});
    addBackward(desc, epsilon, description);
  }

private:
  static dnnl::memory vector(const dnnl::memory &memory, int64_t size) {
    return view(memory, plain({size}));
  }

  /// The gradient of `slot` as a vector; of its own where nobody asks for it.
  dnnl::memory gradientOf(size_t index) const {
    bool asked = index < inputs.size() && wants(index);
    return asked ? view(inputs[index].gradient, scale.get_desc())
                 : dnnl::memory(scale.get_desc(), engine());
  }

  void addBackward(const dnnl::memory::desc &desc, float epsilon,
                   const typename Forward::primitive_desc &description) {
    if (!outputs[0].gradient.get(true))
      return;
    if (!wants(0))
      inputs[0].gradient = dnnl::memory(inputs[0].value.get_desc(), engine());
    typename Backward::primitive_desc back(
        typename Backward::desc(dnnl::prop_kind::backward, desc, desc, epsilon, flags), engine(),
        description);
    backwardSteps.push_back({Backward(back),
                             {{DNNL_ARG_SRC, view(inputs[0].value, desc)},
                              {DNNL_ARG_SCALE, scale},
                              {DNNL_ARG_SHIFT, shift},
                              {DNNL_ARG_MEAN, mean},
                              {DNNL_ARG_VARIANCE, variance},
                              {DNNL_ARG_DIFF_DST, view(outputs[0].gradient, desc)},
                              {DNNL_ARG_DIFF_SRC, view(inputs[0].gradient, desc)},
                              {DNNL_ARG_DIFF_SCALE, gradientOf(1)},
                              {DNNL_ARG_DIFF_SHIFT, gradientOf(2)}}});
  }

  dnnl::memory mean, variance, scale, shift;
};
} // namespace

std::unique_ptr<Kernel> makeBatchNormalization(const Call &call) {
  using Batch =
      Normalization<dnnl::batch_normalization_forward, dnnl::batch_normalization_backward>;
  if (call.inputs[0].dims.size() < 2)
    return nullptr;
  return std::make_unique<Batch>(call, call.inputs[0].dims,
                                 static_cast<float>(call.real("epsilon", 1e-5)));
}

std::unique_ptr<Kernel> makeLayerNormalization(const Call &call) {
  using LayerWise =
      Normalization<dnnl::layer_normalization_forward, dnnl::layer_normalization_backward>;
  std::optional<Rows> rows = layerNormalizationOf(call);
  if (!rows)
    return nullptr;
  return std::make_unique<LayerWise>(call, Dims{rows->groups, rows->width},
                                     static_cast<float>(call.real("epsilon", 1e-5)));
}

} // namespace heterplan::kernels::cpu
