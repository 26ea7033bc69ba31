// How a limit on the time of a whole command is divided: what comes before and behind the search
// takes its part.
#pragma once

#include "support/Units.h"

#include <cstdint>

namespace heterplan {

/// The time to check and write a plan on so many devices, which is nearly linear in them.
Seconds secondsToWrite(int64_t devices);

/// How much of `limit` is gone, or kept, when a search begins: `reading`, of which half of the
/// limit counts at most, and `writing`, of which half of what is left does.
Seconds secondsBesideSearch(Seconds limit, Seconds reading, Seconds writing);

} // namespace heterplan
