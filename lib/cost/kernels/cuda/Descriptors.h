// cuDNN's descriptors of tensors and windows. It knows no fewer than two axes of windows: one of a
// single element is added.
#pragma once

#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {

/// A descriptor of cuDNN, which ends with this.
class Descriptor {
public:
  Descriptor() = default;
  Descriptor(Context &context, int (*create)(Handle *), int (*destroy)(Handle)) : destroy(destroy) {
    context.check(create(&handle), "cuDNN's descriptor");
  }
  Descriptor(Descriptor &&other) noexcept { swap(other); }
  Descriptor &operator=(Descriptor &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Descriptor() {
    if (handle)
      destroy(handle);
  }
  operator Handle() const { return handle; }

private:
  void swap(Descriptor &other) {
    std::swap(handle, other.handle);
    std::swap(destroy, other.destroy);
  }

  Handle handle = nullptr;
  int (*destroy)(Handle) = nullptr;
};

/// Values that lie row by row, the first axis the samples, the second the channels.
Descriptor describeTensor(Context &context, Format format, const Dims &dims);
Descriptor describeFilter(Context &context, Format format, const Dims &dims);

/// Sizes of windows as cuDNN counts them.
struct WindowSizes {
  std::vector<int> kernel, strides, dilations, padding;
};
/// Nothing where cuDNN cannot pad so.
std::optional<WindowSizes> windowSizesOf(const Windows &windows, const Dims &source,
                                         const Dims &target);

} // namespace heterplan::kernels::cuda
