// The scripts that start a plan: torchrun on this machine or on several hosts.
#pragma once

#include "ir/Program.h"

#include <string>

namespace heterplan {

/// launch.sh: a bash script that starts every rank of `program`. See its --help.
std::string emitLaunchScript(const Program &program);

} // namespace heterplan
