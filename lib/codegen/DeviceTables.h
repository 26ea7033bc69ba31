// The device tables of the report: the memory use of each device, and the part of each rank.
#pragma once

#include "ir/Cluster.h"
#include "ir/Plan.h"
#include "ir/Program.h"

#include <string>

namespace heterplan {

/// A table of HTML with a bar for each group of devices of one type with the same stages: what the
/// plan needs there, and the memory that they have. A device of several stages counts for all of
/// them. Types that `cluster` does not have are left out.
std::string emitMemoryTable(const Plan &plan, const Cluster &cluster);

/// A table of HTML that is folded away: every rank with its device, stages and samples.
std::string emitRankTable(const Program &program);

} // namespace heterplan
