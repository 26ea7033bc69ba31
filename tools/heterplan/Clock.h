// The clock of the wall, for the dates of profiles.
#pragma once

#include <string>

namespace heterplan {

/// "2026-01-31T10:00:00Z"
std::string utcNow();

} // namespace heterplan
