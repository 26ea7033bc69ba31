// The part of Program::verify() that looks at ranks together: messages match, collectives agree,
// and everything runs to its end.
#pragma once

#include "ir/Program.h"

namespace heterplan {

/// "rank 2, instruction 7 (receive of micro-batch 1, peer rank 0)".
std::string describe(const Program &program, int rank, int index);

/// Requires that each rank is valid by itself. Between two ranks the messages of one stage boundary
/// and direction are matched in order, as they are sent. InvalidProgram when a message or a
/// collective does not match, Deadlock when ranks wait for each other. Linear in the size of the
/// program, but for look-ups of messages.
llvm::Error verifyExecution(const Program &program);

} // namespace heterplan
