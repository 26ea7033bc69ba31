// Convolution and pooling: windows over the axes behind the first two, of batch and channels.
#include "ir/onnx/infer/InferenceSupport.h"

using namespace llvm;

namespace heterplan::inference {

namespace {

/// The sizes of the kernel, which the attribute repeats where it is there.
Expected<std::vector<int64_t>> kernelOf(const Inference &node, const Dims &input,
                                        const Dims &weight) {
  if (input.size() < 3 || weight.size() != input.size())
    return node.fail("an input of rank " + std::to_string(input.size()) + " and a weight of rank " +
                     std::to_string(weight.size()) +
                     " do not fit; both must have the same, 3 or more");
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  if (node.hasAttribute("kernel_shape") && node.integers("kernel_shape") != kernel)
    return node.fail("attribute 'kernel_shape' differs from the shape of the weight");
  if (node.integer("group", 1) < 1)
    return node.fail("attribute 'group' must be positive");
  return kernel;
}

Error checkChannels(const Inference &node, int64_t have, int64_t expected) {
  if (have == expected)
    return Error::success();
  return node.fail("the input has " + std::to_string(have) + " channels, the weight is for " +
                   std::to_string(expected));
}

/// [batch, channels, spatial].
Dims joined(int64_t batch, int64_t channels, ArrayRef<int64_t> spatial) {
  Dims dims{batch, channels};
  dims.append(spatial.begin(), spatial.end());
  return dims;
}

/// X [N, C, spatial] and W [M, C/group, kernel]: [N, M, spatial].
Error convolve(Inference &node, size_t weightIndex, DataType type) {
  Dims input = node.dims(0), weight = node.dims(weightIndex);
  auto kernel = kernelOf(node, input, weight);
  if (!kernel)
    return kernel.takeError();
  if (Error error = checkChannels(node, input[1], times(weight[1], node.integer("group", 1))))
    return error;
  auto window = windowOf(node, *kernel, kernel->size());
  if (!window)
    return window.takeError();
  auto spatial = slide(node, *window, ArrayRef<int64_t>(input).drop_front(2));
  if (!spatial)
    return spatial.takeError();
  node.set(0, type, joined(input[0], weight[0], *spatial));
  return Error::success();
}

/// Sizes before the window slid over them.
Dims unslide(const Window &window, ArrayRef<int64_t> sizes, ArrayRef<int64_t> extra) {
  Dims result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = plus(times(window.kernel[i] - 1, window.dilations[i]), 1);
    int64_t size = plus(times(window.strides[i], sizes[i] - 1), plus(reach, extra[i]));
    if (window.autoPad == "SAME_UPPER" || window.autoPad == "SAME_LOWER")
      size = times(window.strides[i], sizes[i]);
    else if (window.autoPad != "VALID")
      size = plus(size, -plus(window.pads[i], window.pads[sizes.size() + i]));
    result.push_back(size);
  }
  return result;
}

/// A list with a value for each of `axes`, or nothing.
Error checkLength(const Inference &node, StringRef name, size_t axes) {
  size_t length = node.integers(name).size();
  if (!length || length == axes)
    return Error::success();
  return node.fail("attribute '" + name.str() + "' has " + std::to_string(length) + " values for " +
                   std::to_string(axes) + " spatial axes");
}

} // namespace

Error convolution(Inference &node) { return convolve(node, 1, node.type(0)); }
Error integerConvolution(Inference &node) { return convolve(node, 1, DataType::Int32); }
/// Data, scale and zero point of input, weight and result. The last gives its type.
Error quantizedConvolution(Inference &node) { return convolve(node, 3, node.type(7)); }

/// X [N, C, spatial] and W [C, M/group, kernel]: [N, M, spatial].
Error transposedConvolution(Inference &node) {
  Dims input = node.dims(0), weight = node.dims(1);
  auto kernel = kernelOf(node, input, weight);
  if (!kernel)
    return kernel.takeError();
  if (Error error = checkChannels(node, input[1], weight[0]))
    return error;
  size_t axes = kernel->size();
  auto window = windowOf(node, *kernel, axes);
  if (!window)
    return window.takeError();
  for (StringRef name : {"output_padding", "output_shape"})
    if (Error error = checkLength(node, name, axes))
      return error;
  std::vector<int64_t> extra = node.integers("output_padding"),
                       spatial = node.integers("output_shape");
  extra.resize(axes);
  Dims sizes = spatial.empty() ? unslide(*window, ArrayRef<int64_t>(input).drop_front(2), extra)
                               : Dims(spatial.begin(), spatial.end());
  node.set(0, node.type(0), joined(input[0], times(weight[1], node.integer("group", 1)), sizes));
  return Error::success();
}

/// The second result, of MaxPool, are indices.
Error pool(Inference &node) {
  Dims input = node.dims(0);
  if (input.size() < 3)
    return node.fail("the input has no spatial axes");
  auto window = windowOf(node, node.integers("kernel_shape"), input.size() - 2);
  if (!window)
    return window.takeError();
  auto spatial = slide(node, *window, ArrayRef<int64_t>(input).drop_front(2));
  if (!spatial)
    return spatial.takeError();
  node.set(0, node.type(0), joined(input[0], input[1], *spatial));
  node.set(1, DataType::Int64, node.outputs[0].dims);
  return Error::success();
}

/// X [N, C, spatial], the indices of its elements, and perhaps the whole shape of the result.
Error unpool(Inference &node) {
  node.setType(0, node.type(0));
  Dims input = node.dims(0);
  if (input.size() < 3 || node.dims(1) != input)
    return node.fail("input and indices must have the same shape, of rank 3 or more");
  size_t axes = input.size() - 2;
  auto window = windowOf(node, node.integers("kernel_shape"), axes);
  if (!window)
    return window.takeError();
  auto given = node.values(2);
  if (given && given->size() != input.size())
    return node.fail("the shape of the result has " + std::to_string(given->size()) +
                     " dimensions, the input " + std::to_string(input.size()));
  if (given)
    node.set(0, node.type(0), *given);
  else if (!node.has(2))
    node.set(0, node.type(0),
             joined(input[0], input[1],
                    unslide(*window, ArrayRef<int64_t>(input).drop_front(2),
                            std::vector<int64_t>(axes))));
  return Error::success();
}

} // namespace heterplan::inference
