#include "ir/onnx/infer/InferenceSupport.h"

#include <algorithm>

using namespace llvm;

namespace heterplan::inference {

int64_t clamped(__int128 value) {
  if (value > tooLarge)
    return tooLarge;
  return value < -tooLarge ? -tooLarge : static_cast<int64_t>(value);
}

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result = times(result, dim);
  return result;
}

Expected<DataType> typeNumber(const Inference &node, int64_t number) {
  if (!isDataType(number))
    return node.fail("element type " + std::to_string(number) + " is not defined");
  return static_cast<DataType>(number);
}

Expected<int64_t> axisOf(const Inference &node, int64_t axis, int64_t rank) {
  int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank)
    return node.fail("axis " + std::to_string(axis) + " of a tensor of rank " +
                     std::to_string(rank));
  return counted;
}

Expected<Dims> broadcast(const Inference &node, ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Dims result(a.begin(), a.end());
  size_t skip = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &dim = result[skip + i];
    if (dim != b[i] && dim != 1 && b[i] != 1)
      return node.fail("dimensions " + std::to_string(dim) + " and " + std::to_string(b[i]) +
                       " do not fit");
    dim = dim == 1 ? b[i] : dim;
  }
  return result;
}

Expected<Dims> matrixProduct(const Inference &node, Dims a, Dims b) {
  if (a.empty() || b.empty())
    return node.fail("a scalar is no operand of a matrix product");
  bool row = a.size() == 1, column = b.size() == 1;
  if (row)
    a.insert(a.begin(), 1);
  if (column)
    b.push_back(1);
  if (a.back() != b[b.size() - 2])
    return node.fail("inner dimensions " + std::to_string(a.back()) + " and " +
                     std::to_string(b[b.size() - 2]) + " differ");
  auto result =
      broadcast(node, ArrayRef<int64_t>(a).drop_back(2), ArrayRef<int64_t>(b).drop_back(2));
  if (!result)
    return result.takeError();
  if (!row)
    result->push_back(a[a.size() - 2]);
  if (!column)
    result->push_back(b.back());
  return result;
}

Expected<Window> windowOf(const Inference &node, ArrayRef<int64_t> kernel, size_t axes) {
  Window window;
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides = node.integers("strides");
  window.dilations = node.integers("dilations");
  window.pads = node.integers("pads");
  window.autoPad = node.text("auto_pad", "NOTSET");
  window.ceiling = node.integer("ceil_mode", 0) != 0;
  if (window.strides.empty())
    window.strides.assign(axes, 1);
  if (window.dilations.empty())
    window.dilations.assign(axes, 1);
  if (window.pads.empty())
    window.pads.assign(2 * axes, 0);
  if (kernel.size() != axes || window.strides.size() != axes || window.dilations.size() != axes ||
      window.pads.size() != 2 * axes)
    return node.fail("kernel, strides, dilations or pads do not fit " + std::to_string(axes) +
                     " spatial axes");
  for (const auto *list : {&window.kernel, &window.strides, &window.dilations})
    if (std::any_of(list->begin(), list->end(), [](int64_t value) { return value < 1; }))
      return node.fail("kernel, strides and dilations must be positive");
  return window;
}

Expected<Dims> slide(const Inference &node, const Window &window, ArrayRef<int64_t> sizes) {
  Dims result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t stride = window.strides[i];
    int64_t reach = plus(times(window.kernel[i] - 1, window.dilations[i]), 1);
    if (window.autoPad == "SAME_UPPER" || window.autoPad == "SAME_LOWER") {
      result.push_back((sizes[i] + stride - 1) / stride);
      continue;
    }
    int64_t padded = sizes[i], front = 0;
    if (window.autoPad != "VALID") {
      front = window.pads[i];
      padded = plus(padded, plus(front, window.pads[sizes.size() + i]));
    }
    int64_t room = plus(padded, -reach);
    if (room < 0)
      return node.fail("the window of " + std::to_string(reach) + " is larger than the input of " +
                       std::to_string(padded));
    int64_t count = room / stride + 1;
    if (window.ceiling && room % stride) // a window that starts in the padding behind is left out
      count += times(count, stride) < plus(sizes[i], front);
    result.push_back(count);
  }
  return result;
}

} // namespace heterplan::inference
