// The request of a plan, as the options of a command that plans again.
#pragma once

#include "CompileOptions.h"

namespace heterplan {

/// Lets `options` have from `plan` whatever the command line does not give.
void completeFrom(const Plan &plan, CompileOptions &options);

/// Lets `request` have the pins and sets of layers of `plan` if it has none.
void completeSets(const Plan &plan, Request &request);

} // namespace heterplan
