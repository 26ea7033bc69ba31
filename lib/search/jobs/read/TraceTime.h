// Times of day in traces.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace heterplan::jobs {

/// "2017-10-07 01:23:45" in seconds from 1970; none if `text` has another form.
std::optional<double> secondsOf(llvm::StringRef text);

} // namespace heterplan::jobs
