#include "cost/kernels/cuda/Descriptors.h"

namespace heterplan::kernels::cuda {
namespace {
constexpr size_t leastAxes = 4; // of a tensor

std::vector<int> narrow(const Dims &dims, size_t least, int filler) {
  std::vector<int> result(dims.begin(), dims.end());
  result.resize(std::max(result.size(), least), filler);
  return result;
}

int typeOf(Format format) { return format == Format::Float ? cudnnFloat : cudnnBFloat16; }
} // namespace

Descriptor describeTensor(Context &context, Format format, const Dims &dims) {
  Descriptor result(context, context.dnn.createTensor, context.dnn.destroyTensor);
  std::vector<int> sizes = narrow(dims, leastAxes, 1);
  std::vector<int> strides = narrow(stridesOf(Dims(sizes.begin(), sizes.end())), leastAxes, 1);
  context.check(context.dnn.setTensor(result, typeOf(format), int(sizes.size()), sizes.data(),
                                      strides.data()),
                "cuDNN's description of a tensor");
  return result;
}

Descriptor describeFilter(Context &context, Format format, const Dims &dims) {
  Descriptor result(context, context.dnn.createFilter, context.dnn.destroyFilter);
  std::vector<int> sizes = narrow(dims, leastAxes, 1);
  context.check(
      context.dnn.setFilter(result, typeOf(format), cudnnRowMajor, int(sizes.size()), sizes.data()),
      "cuDNN's description of weights");
  return result;
}

std::optional<WindowSizes> windowSizesOf(const Windows &windows, const Dims &source,
                                         const Dims &target) {
  auto padding = paddingOf(windows, source, target);
  if (!padding)
    return std::nullopt;
  constexpr size_t least = leastAxes - 2;
  padding->resize(std::max(padding->size(), least), 0);
  return WindowSizes{narrow(windows.kernel, least, 1), narrow(windows.strides, least, 1),
                     narrow(windows.dilations, least, 1), std::move(*padding)};
}

} // namespace heterplan::kernels::cuda
