// Loops of our own, over runs of values that lie together, on as many threads as oneDNN has.
#pragma once

#include "cost/kernels/Broadcast.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>

namespace heterplan::kernels::cpu {

constexpr int64_t leastOfThread = 1 << 14; // values: fewer are not worth a thread

/// body(begin, end) for parts of 0 to `count`, at the same time on as many threads as there are,
/// each of at least `least`.
template <typename Body> void inParallel(int64_t count, int64_t least, Body body) {
#ifdef _OPENMP
  int parts = int(
      std::clamp<int64_t>(count / std::max<int64_t>(least, 1), 1, int64_t(omp_get_max_threads())));
  if (parts > 1) {
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part)
      body(count * part / parts, count * (part + 1) / parts);
    return;
  }
#else
  (void)least;
#endif
  body(int64_t(0), count);
}

/// The axis along which threads share a walk: the longest of those along which a step in `own` goes
/// somewhere, so that no two threads write to one place; -1 where there is none.
inline int sharedAxis(const Broadcast &shape, const Dims *own) {
  int best = -1;
  for (int axis = 0; axis < int(shape.dims.size()); ++axis)
    if ((!own || (*own)[axis] != 0) && (best < 0 || shape.dims[axis] > shape.dims[best]))
      best = axis;
  return best;
}

/// Calls body(place in the result, in the left operand, in the right one, length) for each run
/// along the last axis, of those from `begin` to `end` along `cut`.
template <typename Body>
void walkRuns(const Broadcast &shape, int cut, int64_t begin, int64_t end, Body body) {
  Dims dims = shape.dims, strides = stridesOf(dims), position(dims.size(), 0);
  int64_t at = 0, left = 0, right = 0;
  if (cut >= 0) {
    dims[cut] = end - begin;
    at = begin * strides[cut];
    left = begin * shape.left[cut];
    right = begin * shape.right[cut];
  }
  size_t outer = dims.size() - 1;
  for (int64_t runs = product(llvm::makeArrayRef(dims).drop_back()); runs > 0; --runs) {
    body(at, left, right, dims.back());
    for (size_t axis = outer; axis-- > 0;) {
      bool wraps = ++position[axis] == dims[axis];
      int64_t steps = wraps ? 1 - dims[axis] : 1;
      at += steps * strides[axis];
      left += steps * shape.left[axis];
      right += steps * shape.right[axis];
      if (!wraps)
        break;
      position[axis] = 0;
    }
  }
}

/// The same for all runs, on all threads. `own`: strides of what body adds to, if it adds.
template <typename Body> void eachRun(const Broadcast &shape, const Dims *own, Body body) {
  int cut = sharedAxis(shape, own);
  if (cut < 0)
    return walkRuns(shape, cut, 0, 0, body);
  int64_t values = product(shape.dims) / std::max<int64_t>(shape.dims[cut], 1);
  inParallel(shape.dims[cut], leastOfThread / std::max<int64_t>(values, 1),
             [&](int64_t begin, int64_t end) { walkRuns(shape, cut, begin, end, body); });
}

} // namespace heterplan::kernels::cpu
