// Plans that the host makes before it launches kernels: walks, foldings, sizes of grids, products
// as cuBLAS needs them, paddings as cuDNN does. Pure functions.
#pragma once

#include "cost/kernels/Broadcast.h"
#include "cost/kernels/Shapes.h"
#include "cost/kernels/Windows.h"
#include "cost/kernels/cuda/Walk.h"

#include <vector>

namespace heterplan::kernels::cuda {

/// A walk through `dims` where a step along an axis goes as far as `strides` of each tensor say;
/// nothing where it has more axes or tensors than a walk.
std::optional<Walk> walkOf(const Dims &dims, const std::vector<Dims> &strides);

/// A walk through `dims` that sums over the axes along which a step in `target` goes nowhere;
/// `strides`: of what is read.
std::optional<Folding> foldingOf(const Dims &dims, const Dims &target,
                                 const std::vector<Dims> &strides);

/// How many of the `threads` of a block share a row of `width`: a power of two, about one for each
/// four elements.
int lanesOf(int64_t width, int threads);

/// Into how many pieces each of `results` sums of `terms` is cut, so that `multiprocessors` have
/// enough to do when one block makes `resultsOfBlock` of them.
int64_t piecesOf(int64_t results, int64_t resultsOfBlock, int64_t terms, int multiprocessors);

/// C = op(A)·op(B) as cuBLAS takes it. It counts columns first: what lies row by row is its
/// transpose, so that it is asked for C^T = op(B)^T·op(A)^T.
struct ColumnProduct {
  bool turnFirst = false, turnSecond = false; // of what cuBLAS calls A (our B) and B (our A)
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t firstLeading = 0, secondLeading = 0, resultLeading = 0;
  int64_t firstStride = 0, secondStride = 0, resultStride = 0;
};
/// `left` and `right` are the stored shapes; leading axes count products.
ColumnProduct columnProductOf(const Dims &left, bool turnLeft, const Dims &right, bool turnRight);

/// cuDNN pads both ends of an axis alike, and leaves out what does not fill a window at the end:
/// the padding of each axis, or nothing where that makes other outputs.
std::optional<std::vector<int>> paddingOf(const Windows &windows, const Dims &source,
                                          const Dims &target);

/// The measurement of an algorithm by a search.
struct Candidate {
  int algorithm = 0;
  bool works = false;
  float time = 0;
  size_t workspace = 0;
  int math = 0;
};
/// The fastest that works within `workspace` bytes, or null.
const Candidate *fastest(const std::vector<Candidate> &candidates, size_t workspace);

} // namespace heterplan::kernels::cuda
