// The plans of `heterplan compile --alternatives`.
#pragma once

#include "PlanningInputs.h"

#include "ir/AlternativePlan.h"

#include <atomic>

namespace heterplan {

/// The best alternatives to `plan`, as many as `options` ask for, each searched as the plan was but
/// for less long; fewer once `interrupted`. Not checked yet. Fails as search() does.
llvm::Expected<std::vector<AlternativePlan>> findAlternatives(const Plan &plan,
                                                              const PlanningInputs &inputs,
                                                              const CompileOptions &options,
                                                              const std::atomic<bool> &interrupted);

} // namespace heterplan
