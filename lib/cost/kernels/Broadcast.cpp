#include "cost/kernels/Broadcast.h"

namespace heterplan::kernels {
namespace {
Dims stridesWithin(const Dims &dims, size_t rank) {
  Dims strides = stridesOf(dims);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] == 1)
      strides[axis] = 0;
  strides.insert(strides.begin(), rank - dims.size(), 0);
  return strides;
}
} // namespace

Broadcast broadcastOf(const Dims &left, const Dims &right, const Dims &result) {
  Broadcast all{result, stridesWithin(left, result.size()), stridesWithin(right, result.size())};
  Broadcast merged;
  for (size_t axis = 0; axis < result.size(); ++axis) {
    int64_t size = result[axis];
    if (size == 1)
      continue;
    bool joins = !merged.dims.empty() && merged.left.back() == all.left[axis] * size &&
                 merged.right.back() == all.right[axis] * size;
    if (!joins) {
      merged.dims.push_back(1);
      merged.left.push_back(0);
      merged.right.push_back(0);
    }
    merged.dims.back() *= size;
    merged.left.back() = all.left[axis];
    merged.right.back() = all.right[axis];
  }
  if (merged.dims.empty())
    return {{1}, {0}, {0}};
  return merged;
}

} // namespace heterplan::kernels
