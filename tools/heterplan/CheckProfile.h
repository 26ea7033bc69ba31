// heterplan profile --check: how far profiles can be trusted.
#pragma once

#include "Commands.h"
#include "ProfileJob.h"

namespace heterplan {

/// Reports on the files of --check; exitInfeasible where a check fails.
llvm::Expected<ExitStatus> checkProfiles(const ProfileCommand &command);

} // namespace heterplan
