// Shares of a micro-batch for unequal devices (LB-BSP, Chen et al., SoCC 2020): integers that
// minimise the time of the slowest.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace heterplan {

/// `count` devices that take the same time for the same share.
struct EqualDevices {
  int count = 0;
  int64_t mostSamples = 0; // by memory; at least 1
  /// Time of one device for `samples` samples, 1 ≤ samples; non-decreasing.
  llvm::function_ref<double(int64_t samples)> time;
};

/// The shares of each class's devices, largest first, that sum to `samples` and minimise the
/// largest time; each device gets at least one sample. Empty when they do not fit. Exact: the
/// optimal time is the time of some class at some share, found by bisection on the shares.
std::vector<std::vector<int64_t>> balance(const std::vector<EqualDevices> &classes,
                                          int64_t samples);

} // namespace heterplan
