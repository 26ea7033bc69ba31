// The sections of the report on what limits a plan, and on the plans that it was compared with.
#pragma once

#include "ir/AlternativePlan.h"
#include "ir/PlanLimits.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace heterplan {

/// The bottleneck stage, where its time goes, and the constraint that is closest to its limit,
/// where `limits` says so (may be null).
std::string emitLimits(const Plan &plan, const PlanLimits *limits);

/// A table of the chosen plan and the alternatives to it; where there are none, how to get them.
std::string emitAlternatives(const Plan &plan, llvm::ArrayRef<AlternativePlan> alternatives);

} // namespace heterplan
