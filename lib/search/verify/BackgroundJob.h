// What the checker says of a background job in the gaps of a burst plan.
#pragma once

#include "search/verify/ConstraintFormulas.h"

#include <vector>

namespace heterplan {

/// Of a plan with a background job, all about the re-evaluated stages: each copy has memory beside
/// those of its device; it trains no longer than that device is idle, `overrun` at each gap
/// included; the predicted slow-down is within the one asked for; the rates add up. None for other
/// plans.
std::vector<ConstraintFormula> backgroundFits(const CheckInputs &in);

} // namespace heterplan
