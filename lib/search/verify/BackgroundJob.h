// The checks of a background job in the gaps of a burst plan.
#pragma once

#include "search/verify/ConstraintFormulas.h"

#include <vector>

namespace heterplan {

/// The formulas for a background job, all about the re-evaluated stages. Each copy fits in memory
/// beside the stages of its device. It trains no longer than that device is idle, `overrun` at each
/// gap included. The predicted slow-down is within the requested one; the rates add up. Plans
/// without a background job have none.
std::vector<ConstraintFormula> backgroundFits(const CheckInputs &in);

} // namespace heterplan
