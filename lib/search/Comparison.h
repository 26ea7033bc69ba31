// Bursts against pipelines: what `auto` does where the request limits the amplification of layers,
// which makes the two comparable.
#pragma once

#include "search/Search.h"

namespace heterplan {

/// Whether plans of both kinds are searched for `request`: any schedule will do, and layers may
/// take so many device-seconds and no more where they run as bursts.
inline bool comparesBursts(const Request &request) {
  return request.schedule == ScheduleChoice::Auto && request.amplificationLimit > 0;
}

/// The better of the best burst plan and the best pipeline, which may be one stage; what was found
/// of each is in Plan::alternatives. The limit on the amplification is that of the burst plan only.
/// Fails as searchBurst() and search() do.
llvm::Expected<SearchOutcome> compareWithBursts(const Problem &problem, llvm::StringRef strategy,
                                                const SearchOptions &options);

} // namespace heterplan
