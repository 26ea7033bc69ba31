// Plans for the loss of nodes, made ahead: `run --elastic` goes on with them.
#pragma once

#include "Commands.h"
#include "CompileOptions.h"
#include "PlanningInputs.h"

namespace heterplan {

/// Writes plans for the loss of 1 to `most` nodes of each group that `before` uses into the folder
/// `fallbacks` of its `directory`, and prints a line for each. Each is worth most in `horizon`
/// steps.
llvm::Expected<ExitStatus> prepareFallbacks(const Plan &before, PlanningInputs &inputs,
                                            const CompileOptions &options,
                                            const std::string &directory, int64_t horizon,
                                            int64_t most);

} // namespace heterplan
