// The windows that convolutions and pooling slide over their input.
#pragma once

#include "cost/kernels/Call.h"

#include <optional>

namespace heterplan::kernels {

struct Windows {
  Dims kernel, strides, dilations;
  Dims before, after; // padding of each axis
};

/// The windows of `call` over input 0; `weights` has the window's sizes in its last axes. The
/// padding at the end is what the shape of the output takes, so that ceil_mode and auto_pad need
/// no rules of their own. Nothing where the input has not one to three axes to slide along.
std::optional<Windows> windowsOf(const Call &call, const Dims &weights);

/// The windows of MaxPool, AveragePool or GlobalAveragePool; nothing where they are dilated, or
/// positions are an output of their own.
std::optional<Windows> poolingOf(const Call &call);

} // namespace heterplan::kernels
