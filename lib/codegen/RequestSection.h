// The request in the report: objective and constraints, the devices that the plan leaves idle, and
// how much of the peak rates it uses.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include <string>

namespace heterplan {

/// A section with the objective and each constraint of `plan`. With a `cluster` it lists the idle
/// devices by type. With a `model` too it states the model FLOPs utilisation: the FLOPs of an
/// iteration over those that the devices of the plan could do at their peak rate.
std::string emitRequest(const Plan &plan, const Cluster *cluster, const LayerGraph *model);

} // namespace heterplan
