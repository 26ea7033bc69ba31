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
  int64_t mostSamples = 0; // by memory; at least `leastSamples`
  /// Time of one device for `samples` samples, 1 ≤ samples. Shares are the best where it is
  /// non-decreasing; elsewhere, as with measured times, they still sum up.
  llvm::function_ref<double(int64_t samples)> time;
  int64_t leastSamples = 1;
};

/// The shares of `samples` on `devices` equal devices, as even as possible, largest first.
std::vector<int64_t> evenShares(int64_t samples, int devices);

/// The shares of each class's devices, largest first, that sum to `samples` and minimise the
/// largest time; each device gets at least its `leastSamples`. Empty when they do not fit. Exact:
/// the shares of balanceOneByOne(), whose last sample is found by bisection on the shares. So a
/// device that becomes faster never gets fewer, and the others never get more.
std::vector<std::vector<int64_t>> balance(const std::vector<EqualDevices> &classes,
                                          int64_t samples);

/// The same samples one by one, which also says what happens where times fall as samples grow: each
/// goes to the device that is done with it first, of equal ones to one of the last class. Takes
/// time in proportion to `samples`.
std::vector<std::vector<int64_t>> balanceOneByOne(const std::vector<EqualDevices> &classes,
                                                  int64_t samples);

/// The shares of balanceOneByOne(), unless times fall so that others are faster whose devices of a
/// class have even shares: then the fastest of these, of equally fast ones that with the fewest
/// samples on the first classes. Micro-batches of more than 512 samples are divided one by one.
std::vector<std::vector<int64_t>> balanceAnyTimes(const std::vector<EqualDevices> &classes,
                                                  int64_t samples);

} // namespace heterplan
