// The windows that convolutions and pooling slide over their input.
#pragma once

#include "cost/kernels/cpu/Kernel.h"

#include <optional>

namespace heterplan::cpu {

struct Windows {
  Dims kernel, strides, dilations; // oneDNN counts a dilation of one as 0
  Dims before, after;              // padding of each axis
};

/// The windows of `call` over input 0; `weights` has the window's sizes in its last axes. The
/// padding at the end is what the shape of the output takes, so that ceil_mode and auto_pad need
/// no rules of their own. Nothing where the padding at the start is not told.
std::optional<Windows> windowsOf(const Call &call, const Dims &weights);

} // namespace heterplan::cpu
