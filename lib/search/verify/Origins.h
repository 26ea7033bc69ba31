// The origins of a plan's time, computed afresh for the checker.
#pragma once

#include "search/verify/Reevaluation.h"

namespace heterplan {

/// The defect of Plan::provenance or Plan::iterationInterval, as a message. Provenance is the
/// shares of the iteration's computing, transfers and synchronisation on the slowest replica of
/// each stage; the interval is the possible error of these. Returns "" if both are right or the
/// times are unknown. If several replicas are equally slow, any of them may be the slowest.
std::string wrongOrigins(const Plan &plan, const Reevaluation &reevaluated);

} // namespace heterplan
