// The request in the report: objective and constraints, and the devices that the plan leaves idle.
#pragma once

#include "ir/Cluster.h"
#include "ir/Plan.h"

#include <string>

namespace heterplan {

/// A section with the objective and each constraint of `plan`. With a `cluster` it lists the idle
/// devices by type.
std::string emitRequest(const Plan &plan, const Cluster *cluster);

} // namespace heterplan
