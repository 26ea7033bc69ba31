// Sliding windows (convolution and pooling): ONNX lets padding differ at the two ends and be chosen
// by the shape; PyTorch does not. This works out the padding in numbers.
#pragma once

#include "codegen/NodeEmitter.h"

namespace heterplan {

struct Windows {
  Integers kernel, strides, dilations;
  Integers before, after; // padding at the two ends of each axis

  size_t axes() const { return kernel.size(); }
  bool isSymmetric() const { return before == after; }
  bool isPadded() const;
  /// Whether no padding is below zero.
  bool isNatural() const;
};

/// The windows of a pooling or convolution over the last `kernel.size()` axes of its first input.
/// Fails when attributes have the wrong length, or when auto_pad needs a size that is not fixed.
llvm::Expected<Windows> windowsOf(const NodeEmitter &e, Integers kernel);

/// The argument of F.pad for `windows`: last axis first, both ends.
std::string paddingTuple(const Integers &before, const Integers &after);

} // namespace heterplan
