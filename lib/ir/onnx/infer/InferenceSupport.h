// Common parts of inference functions: arithmetic that cannot overflow, axes, broadcasting, and
// their declarations. Internal to the Inference*.cpp files.
#pragma once

#include "ir/onnx/infer/Inference.h"

namespace heterplan::inference {

using Dims = Inference::Dims;

/// Beyond every size that is accepted; sums and products stop there.
constexpr int64_t tooLarge = int64_t(1) << 60;

int64_t clamped(__int128 value);
inline int64_t plus(int64_t a, int64_t b) { return clamped(static_cast<__int128>(a) + b); }
inline int64_t times(int64_t a, int64_t b) { return clamped(static_cast<__int128>(a) * b); }
int64_t product(llvm::ArrayRef<int64_t> dims);

/// The element type that an attribute states by its number.
llvm::Expected<DataType> typeNumber(const Inference &node, int64_t number);
/// `axis` counted from the front; fails outside [-rank, rank).
llvm::Expected<int64_t> axisOf(const Inference &node, int64_t axis, int64_t rank);
/// Dimensions broadcast by NumPy's rule.
llvm::Expected<Dims> broadcast(const Inference &node, llvm::ArrayRef<int64_t> a,
                               llvm::ArrayRef<int64_t> b);
/// Result of a matrix product by NumPy's rule.
llvm::Expected<Dims> matrixProduct(const Inference &node, Dims a, Dims b);

/// Window geometry of convolution and pooling over the axes behind the first two.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::string autoPad;
  bool ceiling = false;
};
/// Fails where the attributes do not fit `axes` spatial axes.
llvm::Expected<Window> windowOf(const Inference &node, llvm::ArrayRef<int64_t> kernel, size_t axes);
/// Spatial sizes of the result.
llvm::Expected<Dims> slide(const Inference &node, const Window &window,
                           llvm::ArrayRef<int64_t> sizes);

#define HETERPLAN_INFERENCE(domain, op, inputs, outputs, required, function)                       \
  llvm::Error function(Inference &node);
#define HETERPLAN_COUNTS(least, most)
#include "ir/onnx/infer/Inference.def"

} // namespace heterplan::inference
