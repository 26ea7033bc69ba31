// Images and signals.
#include "ir/onnx/infer/InferenceSupport.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan::inference {

namespace {

/// -1, which is refused, where `size` is none.
int64_t wholeSize(double size) {
  return size >= 0 && size < static_cast<double>(tooLarge) ? static_cast<int64_t>(size) : -1;
}

int64_t scaled(int64_t size, double scale) {
  return wholeSize(std::floor(static_cast<double>(size) * scale));
}

/// With a policy that keeps the aspect ratio, one scale for all axes: the smallest or the largest.
void keepAspect(const Inference &node, const std::vector<int64_t> &axes, const Dims &before,
                std::vector<int64_t> &sizes) {
  std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || sizes.empty())
    return;
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); ++i)
    scales.push_back(static_cast<double>(sizes[i]) /
                     static_cast<double>(std::max<int64_t>(1, before[axes[i]])));
  double scale = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                        : *std::max_element(scales.begin(), scales.end());
  for (size_t i = 0; i < axes.size(); ++i) {
    sizes[i] = wholeSize(std::round(scale * static_cast<double>(before[axes[i]])));
  }
}

} // namespace

/// Sizes (input 3), or scales (input 2), of all axes or of those that the attribute `axes` names.
Error resize(Inference &node) {
  node.setType(0, node.type(0));
  Dims dims = node.dims(0);
  std::vector<int64_t> axes;
  for (int64_t axis : node.integers("axes")) {
    auto counted = axisOf(node, axis, node.rank(0));
    if (!counted)
      return counted.takeError();
    axes.push_back(*counted);
  }
  if (!node.hasAttribute("axes"))
    for (int64_t axis = 0; axis < node.rank(0); ++axis)
      axes.push_back(axis);
  auto sizes = node.values(3);
  auto scales = node.reals(2);
  if (sizes && !sizes->empty()) {
    if (sizes->size() != axes.size())
      return node.fail(std::to_string(sizes->size()) + " sizes for " + std::to_string(axes.size()) +
                       " axes");
    keepAspect(node, axes, dims, *sizes);
    for (size_t i = 0; i < axes.size(); ++i)
      dims[axes[i]] = (*sizes)[i];
  } else if (scales && !scales->empty()) {
    if (scales->size() != axes.size())
      return node.fail(std::to_string(scales->size()) + " scales for " +
                       std::to_string(axes.size()) + " axes");
    for (size_t i = 0; i < axes.size(); ++i)
      dims[axes[i]] = scaled(dims[axes[i]], static_cast<float>((*scales)[i]));
  } else {
    return Error::success();
  }
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// [N, C·block, L] and the sizes of image and block: [N, C, image].
Error columnsToImage(Inference &node) {
  node.setType(0, node.type(0));
  auto image = node.values(1), block = node.values(2);
  if (!image || !block)
    return Error::success();
  int64_t window = product(*block);
  if (node.rank(0) != 3 || window < 1 || node.dims(0)[1] % window)
    return node.fail("the second axis of the input is no multiple of the block");
  Dims dims{node.dims(0)[0], node.dims(0)[1] / window};
  dims.append(image->begin(), image->end());
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// theta [N, 2, 3] or [N, 3, 4] and the size [N, C, spatial]: [N, spatial, 2 or 3].
Error affineGrid(Inference &node) {
  node.setType(0, node.type(0));
  auto size = node.values(1);
  if (!size)
    return Error::success();
  if (size->size() < 4 || size->size() > 5)
    return node.fail("the size has " + std::to_string(size->size()) + " elements, not 4 or 5");
  Dims dims{(*size)[0]};
  dims.append(size->begin() + 2, size->end());
  dims.push_back(static_cast<int64_t>(size->size()) - 2);
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// X [N, C, spatial] and grid [N, spatial of the result, rank - 2].
Error gridSample(Inference &node) {
  Dims grid = node.dims(1);
  if (node.rank(0) < 3 || node.rank(1) != node.rank(0))
    return node.fail("input and grid must have the same rank, of 3 or more");
  Dims dims{node.dims(0)[0], node.dims(0)[1]};
  dims.append(grid.begin() + 1, grid.end() - 1);
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// Height and width lie in the encoded stream.
Error decodedImage(Inference &node) {
  node.setType(0, DataType::UInt8);
  return Error::success();
}

/// The last axis is 1 (real) or 2 (complex) and becomes 2; one-sided, the axis keeps half and one.
Error fourier(Inference &node) {
  node.setType(0, node.type(0));
  auto axes = node.values(2), length = node.values(1);
  if ((node.has(2) && (!axes || axes->size() != 1)) ||
      (node.has(1) && (!length || length->size() != 1)))
    return Error::success();
  Dims dims = node.dims(0);
  auto axis = axisOf(node, axes ? axes->front() : -2, node.rank(0));
  if (!axis)
    return axis.takeError();
  if (*axis + 1 == node.rank(0))
    return node.fail("the last axis holds the parts of complex numbers");
  if (length)
    dims[*axis] = length->front();
  if (node.integer("onesided", 0) && !node.integer("inverse", 0))
    dims[*axis] = dims[*axis] / 2 + 1;
  dims.back() = node.integer("onesided", 0) && node.integer("inverse", 0) ? 1 : 2;
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// signal [N, length, 1 or 2], the step, a window or the length of a frame: [N, frames, bins, 2].
Error shortTimeFourier(Inference &node) {
  node.setType(0, node.type(0));
  if (node.rank(0) != 3)
    return node.fail("the signal has rank " + std::to_string(node.rank(0)) + ", not 3");
  if (node.has(2) && node.rank(2) != 1)
    return node.fail("the window has rank " + std::to_string(node.rank(2)) + ", not 1");
  auto step = node.values(1), given = node.values(3);
  if (!node.has(2) && !node.has(3))
    return node.fail("neither a window nor the length of a frame is given");
  if (!step || (node.has(3) && !given))
    return Error::success();
  if (step->size() != 1 || step->front() < 1 || (given && given->size() != 1))
    return node.fail("step and length of a frame must be one positive number each");
  int64_t length = given ? given->front() : node.dims(2)[0], whole = node.dims(0)[1];
  if (length < 1 || length > whole || (node.has(2) && node.dims(2)[0] != length))
    return node.fail("frames of " + std::to_string(length) +
                     " samples do not fit window and signal");
  int64_t bins = node.integer("onesided", 1) ? length / 2 + 1 : length;
  node.set(0, node.type(0), {node.dims(0)[0], (whole - length) / step->front() + 1, bins, 2});
  return Error::success();
}

/// X [N, C, H, W] and regions [R, 5]: [R, C, pooled_shape].
Error regionPool(Inference &node) {
  std::vector<int64_t> pooled = node.integers("pooled_shape");
  if (node.rank(0) != 4 || node.rank(1) != 2 || pooled.size() != 2)
    return node.fail("an input of rank 4, regions of rank 2 and two pooled sizes are accepted");
  node.set(0, node.type(0), {node.dims(1)[0], node.dims(0)[1], pooled[0], pooled[1]});
  return Error::success();
}

namespace {
/// The side of the blocks that [N, C, H, W] is cut into.
Expected<int64_t> blockOf(const Inference &node) {
  int64_t block = node.integer("blocksize", 0);
  if (node.rank(0) != 4 || block < 1 || block >= tooLarge)
    return node.fail("an input of rank 4 and a positive blocksize are accepted");
  return block;
}
} // namespace

Error depthToSpace(Inference &node) {
  auto block = blockOf(node);
  if (!block)
    return block.takeError();
  Dims dims = node.dims(0);
  if (dims[1] % times(*block, *block))
    return node.fail(std::to_string(dims[1]) + " channels are no multiple of the block");
  node.set(
      0, node.type(0),
      {dims[0], dims[1] / times(*block, *block), times(dims[2], *block), times(dims[3], *block)});
  return Error::success();
}

Error spaceToDepth(Inference &node) {
  auto block = blockOf(node);
  if (!block)
    return block.takeError();
  Dims dims = node.dims(0);
  if (dims[2] % *block || dims[3] % *block)
    return node.fail("height or width is no multiple of the block");
  node.set(0, node.type(0),
           {dims[0], times(dims[1], times(*block, *block)), dims[2] / *block, dims[3] / *block});
  return Error::success();
}

} // namespace heterplan::inference
