// The last steps of the commands that make plans: the independent checks, and the directory.
#pragma once

#include "PlanningInputs.h"

#include "codegen/Package.h"
#include "ir/AlternativePlan.h"
#include "ir/PlanLimits.h"

#include "BackgroundPlanning.h"

namespace heterplan {

/// The things that are written beside a plan.
struct Beside {
  ParetoPlans front = {};                            // name all devices
  llvm::ArrayRef<AlternativePlan> alternatives = {}; // of groups of devices, as the plan is
  const PlannedCopy *copy = nullptr;                 // of a background job
  const PlanLimits *limits = nullptr;
};

/// Lowers and simulates `plan`, and writes all of it to the directory of `options`.
llvm::Error writePlan(const Plan &plan, const PlanningInputs &inputs, const CompileOptions &options,
                      const Beside &beside);

/// Prints a plan, whose devices are groups of `cluster` where several share layers: as JSON,
/// with every fact, or as a summary if its `limits` are known.
void showPlan(const Plan &grouped, const Cluster &cluster, const CompileOptions &options,
              const PlanLimits *limits = nullptr);

/// The limits of `plan` under its inputs.
llvm::Expected<PlanLimits> limitsOf(const Plan &plan, const PlanningInputs &inputs);

/// Lets the independent checker check `plan`, which keeps the checks. The name of the first check
/// that fails, or null.
llvm::Expected<const char *> failedCheck(Plan &plan, const PlanningInputs &inputs);

/// Checks `plan`; false, and an internal error on stderr, if a check fails.
llvm::Expected<bool> passesChecks(Plan &plan, const PlanningInputs &inputs,
                                  const CompileOptions &options);

} // namespace heterplan
