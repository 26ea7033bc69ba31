// The pools of devices that a burst plan may have: those of each type, and those of all types
// together, the fastest first, among which the samples are divided by how fast they are.
#pragma once

#include "search/burst/Pool.h"
#include "search/problem/Problem.h"

#include <vector>

namespace heterplan {

/// The pools that pins, the budget and limits on devices allow. There is one pool for each type of
/// device. Pools of several types follow (of the eight fastest types): all their devices, half of
/// the devices of each type, a quarter, and so on, so that each also exists in a cluster with twice
/// as many devices. Types are in the order of the time that the whole model takes on one device
/// with the whole batch, then of their names (node classes of one type: as in the cluster). On
/// unequal devices the samples are divided so that the slowest device is fastest for the whole
/// model (search/balance), whatever their memory. Fails if the cost model fails.
llvm::Expected<std::vector<Pool>> poolsOf(const Problem &problem);

} // namespace heterplan
