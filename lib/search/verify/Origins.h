// Where the time of a plan comes from, worked out afresh for the checker.
#pragma once

#include "search/verify/Reevaluation.h"

namespace heterplan {

/// What is wrong about Plan::provenance, the shares of the iteration's computing, transfers and
/// synchronisation on the slowest replica of each stage, or about Plan::iterationInterval, by how
/// much these may be off; "" where nothing is, and where the times are not known. Of replicas that
/// are equally slow any may be meant.
std::string wrongOrigins(const Plan &plan, const Reevaluation &reevaluated);

} // namespace heterplan
