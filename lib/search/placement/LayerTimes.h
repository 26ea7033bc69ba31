// Layer prices as prefix sums: the cost of layers [begin, end) on one type at one local batch is a
// difference of two numbers.
#pragma once

#include "search/problem/Problem.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <tuple>
#include <vector>

namespace heterplan {

/// Sums over the first i layers, i = 0..layers. A backward pass takes its part of adding the
/// gradients of all micro-batches.
struct PrefixSums {
  std::vector<double> forward, backward, update; // seconds

  double forwardOf(int begin, int end) const { return forward[end] - forward[begin]; }
  double backwardOf(int begin, int end) const { return backward[end] - backward[begin]; }
  double updateOf(int begin, int end) const { return update[end] - update[begin]; }
};

/// Asks the cost model on demand and keeps the answers. A failure of the model is kept too: the
/// layer then costs infinitely much, and `takeError` tells. Not thread-safe.
class LayerTimes {
public:
  explicit LayerTimes(const Problem &problem) : problem(problem) {}
  LayerTimes(const LayerTimes &) = delete;
  ~LayerTimes() { llvm::consumeError(std::move(failure)); }

  /// Sums for one device of type `type` with `samples` samples in each of `microBatches`; stays
  /// valid.
  const PrefixSums &at(int type, int64_t samples, int64_t microBatches = 1);
  /// The first failure of the cost model, if any.
  llvm::Error takeError();

private:
  std::unique_ptr<PrefixSums> price(int type, int64_t samples, int64_t microBatches);

  const Problem &problem;
  llvm::DenseMap<std::tuple<int, int64_t, int64_t>, std::unique_ptr<PrefixSums>> tables;
  llvm::Error failure = llvm::Error::success();
};

} // namespace heterplan
