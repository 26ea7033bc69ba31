// Burst parallelism (DeepPool, Park et al., arXiv 2112.10065): at a fixed global batch each layer
// has as many devices of one pool as pay off. The stages run one after another; what a stage leaves
// idle is listed in the plan.
#pragma once

#include "search/Search.h"
#include "search/burst/Pool.h"

#include <string>
#include <vector>

namespace heterplan {

/// The best burst plan of `problem`, whose schedule is ScheduleChoice::Burst: stages of consecutive
/// layers on nested sets of devices of one pool (Pools.h), all of the batch at once, each layer
/// within the limit on its amplification. NotSupported for strategies other than `auto`, several
/// micro-batches, sparse tables, recomputation and divided state.
llvm::Expected<SearchOutcome> searchBurst(const Problem &problem, llvm::StringRef strategy,
                                          const SearchOptions &options);

/// Parts of the promised search space that the search does not examine, as messages.
std::vector<std::string> leftOutOfBursts(const Problem &problem, llvm::ArrayRef<Pool> pools);
/// "burst", or "burst-reduced" where something is left out.
std::string burstSpaceName(llvm::ArrayRef<std::string> leftOut);

} // namespace heterplan
