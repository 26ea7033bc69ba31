// The native engine of `heterplan profile`: the kernels of lib/cost/kernels, run here.
#pragma once

#include "Commands.h"
#include "ProfileJob.h"

namespace heterplan {

/// Measures `job` and saves the profile after every measurement; one that is there is gone on with.
/// Layers without a kernel are told on stderr. Ctrl-C ends it after the measurement in hand.
llvm::Expected<ExitStatus> runNative(const ProfileJob &job);

} // namespace heterplan
