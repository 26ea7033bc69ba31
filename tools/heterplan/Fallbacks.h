// Plans for the loss of nodes, made ahead: `run --elastic` goes on with them.
#pragma once

#include "Commands.h"
#include "ReplanCandidates.h"

namespace heterplan {

/// Writes plans for the loss of 1 to `most` nodes of each group that the plan of `asked` uses into
/// the folder `fallbacks` of its `directory`, and prints a line for each.
llvm::Expected<ExitStatus> prepareFallbacks(const Replanning &asked, const std::string &directory,
                                            int64_t most);

} // namespace heterplan
