// The figures of a plan as formulas over what was re-evaluated, and limits on them.
#pragma once

#include "search/verify/ConstraintFormulas.h"

#include <string>

namespace heterplan {

inline Formula number(double value) { return Formula::number(value); }
template <typename Tag> Formula number(Quantity<Tag> value) {
  return Formula::number(value.value());
}
/// For messages: nine digits.
std::string text(double value);

/// Iteration time of the reevaluated stages, from its definition in ir/Plan.h: the formula, or the
/// schedule where that takes longer; what the simulator finds where stages may share devices.
Formula iteration(const CheckInputs &in);
/// The expected iteration that Plan::expected must state.
Formula expectedIteration(const CheckInputs &in);
Formula throughput(const CheckInputs &in);
/// Price of all devices of the plan, and of what leaves zones; a device that is named twice is paid
/// once.
Formula costPerHour(const CheckInputs &in);
/// Dollars an hour, times the hours that an iteration takes.
Formula costPerIteration(const CheckInputs &in);
Formula costPerMillionSamples(const CheckInputs &in);

/// Adds `least ≤ value`, up to a rounding of 1e-9, to `constraint`; the distance is its slack.
void limit(ConstraintFormula &constraint, std::string label, const Formula &least,
           const Formula &value);
/// Fails: the stages could not be worked out.
Part cannotTell(const CheckInputs &in);

} // namespace heterplan
