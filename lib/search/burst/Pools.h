// The pools of devices that a burst plan may have: those of each type, and those of all types
// together, the fastest first, among which the samples are divided by how fast they are.
#pragma once

#include "search/burst/Pool.h"
#include "search/problem/Problem.h"

#include <vector>

namespace heterplan {

/// What pins, the budget and limits on devices allow: one pool for each type of device, then, of
/// several types, one of all of them (of the eight fastest types), of a half of the devices of each
/// type, of a quarter and so on, so that each is there in a cluster of twice as many devices, too.
/// Types are in the order of the time that the whole model takes on one device with the whole
/// batch, then of their names (node classes of one type: as in the cluster). On each number of
/// unequal devices the samples are divided so that the slowest takes least of the whole model
/// (search/balance), whatever their memory. Fails where the cost model does.
llvm::Expected<std::vector<Pool>> poolsOf(const Problem &problem);

} // namespace heterplan
