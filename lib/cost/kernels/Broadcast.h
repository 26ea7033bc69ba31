// How two tensors are walked through together that are broadcast to each other.
#pragma once

#include "cost/kernels/Call.h"

namespace heterplan::kernels {

/// Axes of the result and, for each operand, how far a step along one goes (0: it is broadcast).
/// Neighbouring axes that both operands walk through alike are one; at least one axis is there.
struct Broadcast {
  Dims dims, left, right;
};

/// Shapes as ONNX broadcasts them: aligned at their last axes.
Broadcast broadcastOf(const Dims &left, const Dims &right, const Dims &result);

} // namespace heterplan::kernels
