// The text that compile prints around a plan: notes before it and the next commands after it.
#pragma once

#include "CompileOptions.h"
#include "PlanningInputs.h"

namespace heterplan {

/// Prints the notes that the user can act on to stderr: parameters without values, a loss that
/// needs
/// --loss, and how many notes import lists. With --verbose it prints each assumption.
void printNotes(const PlanningInputs &inputs, const CompileOptions &options);
/// Warns where GPUs of two vendors are in `plan`: their ranks have no NCCL in common.
void warnOfMixedVendors(const Plan &plan, const Cluster &cluster);

/// Prints where the plan was written and the commands that show, check and run it.
void printNext(const CompileOptions &options);

} // namespace heterplan
