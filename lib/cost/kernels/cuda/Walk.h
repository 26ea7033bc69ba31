// Which element of a tensor the threads of a GPU go to: index arithmetic, the same on the host.
#pragma once

#include "cost/kernels/Functions.h"

#include <cstdint>

namespace heterplan::kernels::cuda {

constexpr int mostAxes = 8, mostTensors = 3;

/// Divisions of 64 bits are slow on a GPU.
HETERPLAN_ANYWHERE inline int64_t quotient(int64_t left, int64_t right) {
  return (left | right) >> 32 ? left / right : int64_t(uint32_t(left) / uint32_t(right));
}

/// The places that the elements of a box have in up to three tensors.
struct Walk {
  int axes = 1;
  int64_t dims[mostAxes] = {1};
  int64_t strides[mostTensors][mostAxes] = {};

  /// The offset in `tensor` of element `index` of the box, counted row by row.
  HETERPLAN_ANYWHERE int64_t offset(int64_t index, int tensor) const {
    int64_t result = 0;
    for (int axis = axes - 1; axis > 0; --axis) {
      int64_t rest = quotient(index, dims[axis]);
      result += (index - rest * dims[axis]) * strides[tensor][axis];
      index = rest;
    }
    return result + index * strides[tensor][0];
  }
};

/// A walk in two parts: the results of a sum, and the terms of each.
struct Folding {
  Walk results, terms;
  int64_t resultCount = 1, termCount = 1;
  bool neighbours = false; // the terms of a result lie together, rather than the results of a term

  HETERPLAN_ANYWHERE int64_t offset(int64_t result, int64_t term, int tensor) const {
    return results.offset(result, tensor) + terms.offset(term, tensor);
  }
};

} // namespace heterplan::kernels::cuda
