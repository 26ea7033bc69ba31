#include "cost/kernels/cuda/Plans.h"

#include <algorithm>

namespace heterplan::kernels::cuda {

std::optional<Walk> walkOf(const Dims &dims, const std::vector<Dims> &strides) {
  if (dims.empty() || dims.size() > mostAxes || strides.size() > mostTensors)
    return std::nullopt;
  Walk walk;
  walk.axes = int(dims.size());
  std::copy(dims.begin(), dims.end(), walk.dims);
  for (size_t tensor = 0; tensor < strides.size(); ++tensor)
    std::copy(strides[tensor].begin(), strides[tensor].end(), walk.strides[tensor]);
  return walk;
}

std::optional<Folding> foldingOf(const Dims &dims, const Dims &target,
                                 const std::vector<Dims> &strides) {
  Folding folding;
  Dims parts[2];
  std::vector<Dims> partStrides[2] = {std::vector<Dims>(strides.size()),
                                      std::vector<Dims>(strides.size())};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    bool summed = target[axis] == 0;
    parts[summed].push_back(dims[axis]);
    for (size_t tensor = 0; tensor < strides.size(); ++tensor)
      partStrides[summed][tensor].push_back(strides[tensor][axis]);
    folding.neighbours = summed;
  }
  for (bool summed : {false, true}) {
    Walk &walk = summed ? folding.terms : folding.results;
    (summed ? folding.termCount : folding.resultCount) = product(parts[summed]);
    if (parts[summed].empty())
      continue; // one element
    std::optional<Walk> made = walkOf(parts[summed], partStrides[summed]);
    if (!made)
      return std::nullopt;
    walk = *made;
  }
  return folding;
}

int lanesOf(int64_t width, int threads) {
  int lanes = 1;
  while (lanes < threads && int64_t(lanes) * 4 < width)
    lanes *= 2;
  return lanes;
}

int64_t piecesOf(int64_t results, int64_t resultsOfBlock, int64_t terms, int multiprocessors) {
  constexpr int64_t blocksOfEach = 4, leastTerms = 64;
  int64_t blocks = std::max<int64_t>(1, (results + resultsOfBlock - 1) / resultsOfBlock);
  int64_t wanted = blocksOfEach * multiprocessors / blocks;
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, terms / leastTerms));
}

ColumnProduct columnProductOf(const Dims &left, bool turnLeft, const Dims &right, bool turnRight) {
  auto rows = [](const Dims &dims) { return dims[dims.size() - 2]; };
  ColumnProduct call;
  call.turnFirst = turnRight;
  call.turnSecond = turnLeft;
  call.m = turnRight ? rows(right) : right.back();
  call.k = turnRight ? right.back() : rows(right);
  call.n = turnLeft ? left.back() : rows(left);
  call.batch = product(llvm::ArrayRef<int64_t>(left).drop_back(2));
  call.firstLeading = right.back();
  call.secondLeading = left.back();
  call.resultLeading = call.m;
  call.firstStride = rows(right) * right.back();
  call.secondStride = rows(left) * left.back();
  call.resultStride = call.m * call.n;
  return call;
}

std::optional<std::vector<int>> paddingOf(const Windows &windows, const Dims &source,
                                          const Dims &target) {
  std::vector<int> padding;
  for (size_t axis = 0; axis < windows.kernel.size(); ++axis) {
    int64_t extent = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1;
    int64_t room = source[axis + 2] + 2 * windows.before[axis] - extent;
    if (room < 0 || room / windows.strides[axis] + 1 != target[axis + 2])
      return std::nullopt;
    padding.push_back(int(windows.before[axis]));
  }
  return padding;
}

const Candidate *fastest(const std::vector<Candidate> &candidates, size_t workspace) {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.works && candidate.workspace <= workspace &&
        (!best || candidate.time < best->time))
      best = &candidate;
  return best;
}

} // namespace heterplan::kernels::cuda
